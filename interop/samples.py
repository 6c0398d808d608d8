"""The samples that every peer writes: dense arrays of all dtypes and shapes, and sparse matrices."""

import math

import ml_dtypes
import numpy as np

DENSE_DTYPES = {
    'float64': np.float64,
    'float32': np.float32,
    'float16': np.float16,
    'bfloat16': ml_dtypes.bfloat16,
    'int64': np.int64,
    'int32': np.int32,
    'int16': np.int16,
    'int8': np.int8,
    'uint64': np.uint64,
    'uint32': np.uint32,
    'uint16': np.uint16,
    'uint8': np.uint8,
    'bool': np.bool_,
    'complex64': np.complex64,
    'complex128': np.complex128,
    'float8_e4m3fn': ml_dtypes.float8_e4m3fn,
    'float8_e5m2': ml_dtypes.float8_e5m2,
    'float8_e4m3fnuz': ml_dtypes.float8_e4m3fnuz,
    'float8_e5m2fnuz': ml_dtypes.float8_e5m2fnuz,
    'float8_e8m0fnu': ml_dtypes.float8_e8m0fnu,
}

SHAPES = {
    'scalar': (),
    'one': (1,),
    'empty': (0,),
    'hollow': (3, 0, 2),
    'row': (7,),
    'matrix': (3, 5),
    'column': (33, 1),
    'deep': (1, 2, 1, 3, 1, 2),
    'large': (129, 65),
}


def array(dtype, shape, seed):
    """An array of random bit patterns, NaNs and subnormals among them; booleans are 0 and 1."""
    count = math.prod(shape)
    random = np.random.default_rng(seed)
    if dtype == 'bool':
        return random.integers(0, 2, count, dtype=np.uint8).astype(np.bool_).reshape(shape)
    width = np.dtype(DENSE_DTYPES[dtype]).itemsize
    return np.frombuffer(random.bytes(count * width), dtype=DENSE_DTYPES[dtype]).reshape(shape)


def dense():
    """(name, dtype, array) of every dtype in every shape."""
    seed = 0
    for dtype in DENSE_DTYPES:
        for label, shape in SHAPES.items():
            seed += 1
            yield f'{dtype}.{label}', dtype, array(dtype, shape, seed)


def csr():
    """(name, dtype, shape, values, indices, indptr): sorted columns, some rows empty."""
    for seed, dtype in enumerate(DENSE_DTYPES):
        yield (f'csr.{dtype}', dtype, *_csr_parts(dtype, (6, 9), 0.3, seed))
    yield ('csr.no_values', 'float32', *_csr_parts('float32', (3, 4), 0, 1))
    yield ('csr.no_rows', 'float32', *_csr_parts('float32', (0, 4), 0, 2))
    yield ('csr.full', 'int16', *_csr_parts('int16', (5, 5), 1, 3))
    yield ('csr.large', 'float64', *_csr_parts('float64', (200, 300), 0.05, 4))


def _csr_parts(dtype, shape, density, seed):
    mask = np.random.default_rng(1000 + seed).random(shape) < density
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.uint64)
    indices = np.nonzero(mask)[1].astype(np.uint64)
    return shape, array(dtype, (len(indices),), 2000 + seed), indices, indptr


def coo():
    """(name, dtype, shape, values, coords): coords is (ndim, nnz)."""
    for seed, dtype in enumerate(DENSE_DTYPES):
        yield (f'coo.{dtype}', dtype, *_coo_parts(dtype, (6, 9), 0.3, seed))
    yield ('coo.one_dimension', 'float32', *_coo_parts('float32', (50,), 0.2, 1))
    yield ('coo.three_dimensions', 'float32', *_coo_parts('float32', (3, 4, 5), 0.2, 2))
    yield ('coo.no_values', 'float32', *_coo_parts('float32', (3, 4), 0, 3))


def _coo_parts(dtype, shape, density, seed):
    mask = np.random.default_rng(3000 + seed).random(shape) < density
    coords = np.stack(np.nonzero(mask)).astype(np.uint64)
    return shape, array(dtype, (coords.shape[1],), 4000 + seed), coords
