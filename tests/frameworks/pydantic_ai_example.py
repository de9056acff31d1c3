"""pydantic-ai: an agent that calls a tool, and structured output."""
import os

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

client = AsyncOpenAI(base_url=os.environ["KVIK_URL"], api_key="none", timeout=120, max_retries=0)
model = OpenAIChatModel("kvik", provider=OpenAIProvider(openai_client=client))
settings = {"temperature": 0}


class Person(BaseModel):
    name: str
    age: int


agent = Agent(model, model_settings=settings)
asked = []


@agent.tool_plain
def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    asked.append(city)
    return f"It is 21 degrees and sunny in {city}."


agent.run_sync("What is the weather in Paris?")
assert "Paris" in asked, asked
print("tool ok")

person = Agent(model, output_type=Person, model_settings=settings).run_sync("Bob is 42 years old.").output
assert person == Person(name="Bob", age=42), person
print("output_type ok")
