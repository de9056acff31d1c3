"""LangChain and LangGraph: a forced tool, an agent that calls one, and structured output."""
import os

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

model = ChatOpenAI(base_url=os.environ["KVIK_URL"], api_key="none", model="kvik", temperature=0, timeout=120, max_retries=0)


@tool
def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    return f"It is 21 degrees and sunny in {city}."


class Person(BaseModel):
    """A person."""
    name: str
    age: int


forced = model.bind_tools([get_weather], tool_choice="any").invoke("What is the weather in Paris?")
assert [(call["name"], call["args"]) for call in forced.tool_calls] == [("get_weather", {"city": "Paris"})], forced
print("tool_choice ok")

agent = create_agent(model, [get_weather])
messages = agent.invoke({"messages": [{"role": "user", "content": "What is the weather in Paris?"}]}, {"recursion_limit": 8})["messages"]
assert any(message.type == "tool" and "21 degrees" in message.content for message in messages), messages
print("agent ok")

person = model.with_structured_output(Person).invoke("Bob is 42 years old.")
assert person == Person(name="Bob", age=42), person
print("structured output ok")

agent = create_agent(model, [], response_format=Person)
answer = agent.invoke({"messages": [{"role": "user", "content": "Bob is 42 years old."}]}, {"recursion_limit": 8})
assert answer["structured_response"] == Person(name="Bob", age=42), answer
print("agent's structured output ok")
