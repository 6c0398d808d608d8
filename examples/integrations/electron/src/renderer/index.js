document.querySelector('#row').textContent = (await window.model.row(7)).join(' ')
