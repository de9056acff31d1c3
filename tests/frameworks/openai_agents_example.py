"""openai-agents: an agent that calls a tool, over both of OpenAI's APIs, and structured output."""
import os

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=os.environ["KVIK_URL"], api_key="none", timeout=120, max_retries=0)
asked = []


@function_tool
def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    asked.append(city)
    return f"It is 21 degrees and sunny in {city}."


class Person(BaseModel):
    name: str
    age: int


for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
    model = kind(model="kvik", openai_client=client)
    asked.clear()
    agent = Agent(name="Weather", model=model, tools=[get_weather], model_settings=ModelSettings(temperature=0))
    Runner.run_sync(agent, "What is the weather in Paris?", max_turns=4)
    assert "Paris" in asked, asked
    agent = Agent(name="People", model=model, output_type=Person, model_settings=ModelSettings(temperature=0))
    person = Runner.run_sync(agent, "Bob is 42 years old.", max_turns=2).final_output
    assert person == Person(name="Bob", age=42), person
    print(kind.__name__, "ok")
