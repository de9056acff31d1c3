"""DSPy: typed output, and an agent that calls a tool."""
import os

import dspy

lm = dspy.LM("openai/kvik", api_base=os.environ["KVIK_URL"], api_key="none", temperature=0, max_tokens=400, cache=False, timeout=120, num_retries=0)
dspy.configure(lm=lm, adapter=dspy.JSONAdapter())


class People(dspy.Signature):
    """Extract the person."""
    text: str = dspy.InputField()
    name: str = dspy.OutputField()
    age: int = dspy.OutputField()


person = dspy.Predict(People)(text="Bob is 42 years old.")
assert (person.name, person.age) == ("Bob", 42), person
print("typed output ok")

asked = []


def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    asked.append(city)
    return f"It is 21 degrees and sunny in {city}."


dspy.ReAct("question -> answer", tools=[get_weather], max_iters=3)(question="What is the weather in Paris?")
assert "Paris" in asked, asked
print("ReAct ok")
