"""smolagents: an agent that calls tools until it gives its final answer."""
import os

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

asked = []


@tool
def get_weather(city: str) -> str:
    """Get the current weather of a city.

    Args:
        city: The name of the city.
    """
    asked.append(city)
    return f"It is 21 degrees and sunny in {city}."


model = OpenAIServerModel(model_id="kvik", api_base=os.environ["KVIK_URL"], api_key="none", temperature=0,
                          client_kwargs={"timeout": 120, "max_retries": 0})
answer = ToolCallingAgent(tools=[get_weather], model=model, max_steps=4, verbosity_level=0).run("What is the weather in Paris?")
assert "Paris" in asked, asked
assert "21" in str(answer) or "sunny" in str(answer), answer
print("agent ok")
