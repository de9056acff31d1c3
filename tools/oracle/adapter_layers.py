"""Adapters of a model's own file (graniteswitch) in float64, for reference_logits.py: a control token chooses the adapter of the tokens from itself on."""
import numpy as np


def switched(g, tokens):
    """Returns the tokens whose embeddings are used, and the number of each one's adapter, 0 for none; null if the model has no adapters."""
    if not g("adapters.count"):
        return tokens, None
    controls, substitutes = (np.array(g(f"adapters.token_ids_{name}")[1]) for name in ("activate", "substitute"))
    first = 1 - (len(controls) - g("adapters.count"))  # a list that is longer by one begins with the token that ends adapters
    used, numbers, number = [], [], 0
    for token in tokens:
        found = np.flatnonzero(controls == token)
        number = first + found[0] if len(found) else number
        used.append(substitutes[found[0]] if len(found) else token)
        numbers.append(number)
    return used, np.array(numbers)


def change(L, name, h):
    """Returns what the adapters of the rows add to the product of h with a matrix."""
    a, b, numbers = L(f"{name}.lora_a"), L(f"{name}.lora_b"), L("adapters")
    if a is None or numbers is None:
        return 0
    out = np.zeros((len(h), b.shape[1]))
    for number in set(numbers.tolist()) - {0}:
        rows = numbers == number
        out[rows] = h[rows] @ a[number].T @ b[number].T
    return out
