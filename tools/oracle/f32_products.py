#!/usr/bin/python3
"""Measures the error that f32 products alone cause in a model's logits: the oracle (reference_logits.py) with each matrix product computed as one
chain of f32 multiply-adds in ascending k, like the engine's, and everything else in float64.

    f32_products.py MODEL.gguf 1 15 27 ...

Prints the largest error over all tokens, as a share of the largest logit of its token. No engine with such products is closer, except by chance.
"""
import argparse

import numpy as np

import reference_logits


def rounded(x):
    return np.asarray(x).astype(np.float32).astype(np.float64)


class Chained(np.ndarray):
    """A weight w for which x @ w is computed by chain(); in all other operations it is a plain array."""

    def __array_ufunc__(self, function, method, *inputs, **more):
        if function is np.matmul and method == "__call__" and isinstance(inputs[1], Chained) and inputs[1].ndim == 2:
            return chain(np.asarray(inputs[0]), np.asarray(inputs[1]))
        return getattr(function, method)(*(np.asarray(x) if isinstance(x, Chained) else x for x in inputs), **more)


def chain(x, w):
    """Returns x [..., k] @ w [k, n] of f32 values as [..., n]. The product of two f32 values is exact in float64, so rounding the sum is a fused
    step, except for ties that were rounded before (one in 2^29)."""
    x, sum_so_far = rounded(x), np.zeros((*x.shape[:-1], w.shape[1]))
    for k in range(w.shape[0]):
        sum_so_far = rounded(sum_so_far + x[..., k:k + 1] * w[k])
    return sum_so_far


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokens", type=int, nargs="+")
    args = parser.parse_args()
    meta, weights = reference_logits.load(args.model)
    want = reference_logits.forward(meta, weights, args.tokens)
    chained = {name: w.view(Chained) if w.ndim > 1 else w for name, w in weights.items()}
    got = np.asarray(reference_logits.forward(meta, chained, args.tokens))
    print(f"{(np.abs(got - want).max(1) / np.abs(want).max(1)).max():.2e}")


if __name__ == "__main__":
    main()
