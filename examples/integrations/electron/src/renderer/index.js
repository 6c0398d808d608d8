document.querySelector('#row').textContent = (await window.model.row(7)).join(' ')

addEventListener('dragover', (event) => event.preventDefault())
addEventListener('drop', (event) => {
  event.preventDefault()
  for (const file of event.dataTransfer.files) window.model.showReport(file)
})
