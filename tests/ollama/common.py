"""Shared by the suites of this folder. tests/e2e/ollama_test.py starts the servers and passes their addresses in the environment."""
import json
import os

DEMO = os.environ["KVIK_DEMO_URL"]          # a small trained model
SCRIPTED = os.environ["KVIK_SCRIPTED_URL"]  # a model that reasons, answers and calls a tool twice, and ends after two results
TRAINED = os.environ.get("KVIK_TRAINED_URL", "")    # SmolLM2
TOOL_MODEL = os.environ.get("KVIK_TOOL_MODEL_URL", "")  # Qwen2.5-Coder, which calls tools of its own accord
SCRIPT = json.loads(os.environ["KVIK_SCRIPT"])  # task, thought, words, last_words and the arguments of the two calls


def paint(colour: str, n: int) -> str:
    """Paint walls.

    Args:
      colour: the colour of the paint
      n: the number of walls
    """
    return f"{n} painted {colour}"


def get_weather(city: str) -> str:
    """Get the current weather of a city.

    Args:
      city: the name of the city
    """
    return f"It is 21 degrees and sunny in {city}."
