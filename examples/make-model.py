"""Makes model.safetensors, the file that `npm start` opens: a character-level GPT with two blocks, untrained.

Writing peer: safetensors 0.8.0 (PyPI), with numpy 2.4.6 and ml_dtypes 0.6.0 for bfloat16.
The seed is fixed and the weights are made of integers, so that every run writes the same bytes.

    pip install safetensors==0.8.0 numpy==2.4.6 ml_dtypes==0.6.0
    python examples/make-model.py
"""

from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

VOCABULARY, CONTEXT, WIDTH, BLOCKS = 256, 64, 64, 2

generator = np.random.Generator(np.random.PCG64(20240229))


def weights(*shape):
    """A sum of four uniform integers, near enough to a normal distribution of deviation 0.036."""
    dice = generator.integers(-2048, 2049, size=(4, *shape), dtype=np.int64)
    return (dice.sum(axis=0) / 65536).astype(np.float32)


tensors = {
    "transformer.wte.weight": weights(VOCABULARY, WIDTH),
    "transformer.wpe.weight": weights(CONTEXT, WIDTH),
    "transformer.position_ids": np.arange(CONTEXT, dtype=np.int64),
}
for block in range(BLOCKS):
    prefix = f"transformer.h.{block}"
    for norm in ("ln_1", "ln_2"):
        tensors[f"{prefix}.{norm}.weight"] = np.ones(WIDTH, dtype=np.float32)
        tensors[f"{prefix}.{norm}.bias"] = np.zeros(WIDTH, dtype=np.float32)
    tensors[f"{prefix}.attn.c_attn.weight"] = weights(WIDTH, 3 * WIDTH).astype(np.float16)
    tensors[f"{prefix}.attn.c_attn.bias"] = weights(3 * WIDTH).astype(np.float16)
    tensors[f"{prefix}.attn.c_proj.weight"] = weights(WIDTH, WIDTH).astype(np.float16)
    tensors[f"{prefix}.attn.c_proj.bias"] = weights(WIDTH).astype(np.float16)
    tensors[f"{prefix}.attn.mask"] = np.tril(np.ones((CONTEXT, CONTEXT), dtype=bool))
    tensors[f"{prefix}.mlp.c_fc.weight"] = weights(WIDTH, 4 * WIDTH).astype(ml_dtypes.bfloat16)
    tensors[f"{prefix}.mlp.c_fc.bias"] = weights(4 * WIDTH).astype(ml_dtypes.bfloat16)
    tensors[f"{prefix}.mlp.c_proj.weight"] = weights(4 * WIDTH, WIDTH).astype(ml_dtypes.bfloat16)
    tensors[f"{prefix}.mlp.c_proj.bias"] = weights(WIDTH).astype(ml_dtypes.bfloat16)
tensors["transformer.ln_f.weight"] = np.ones(WIDTH, dtype=np.float32)
tensors["transformer.ln_f.bias"] = np.zeros(WIDTH, dtype=np.float32)
tensors["lm_head.weight"] = weights(VOCABULARY, WIDTH)

path = Path(__file__).with_name("model.safetensors")
# One key: safetensors writes the metadata in the random order of a hash map, and the file is to be the same each time.
save_file(tensors, path, metadata={"description": "A character-level GPT with two blocks, untrained. MIT license."})
path.chmod(0o644)
