"""LlamaIndex: a tool that is called, and structured output."""
import os

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    return f"It is 21 degrees and sunny in {city}."


class Person(BaseModel):
    """A person."""
    name: str
    age: int


llm = OpenAILike(model="kvik", api_base=os.environ["KVIK_URL"], api_key="none", is_chat_model=True, is_function_calling_model=True,
                 temperature=0, timeout=120, max_retries=0)
response = llm.chat_with_tools([FunctionTool.from_defaults(get_weather)], chat_history=[ChatMessage(role="user", content="What is the weather in Paris?")],
                               tool_required=True)
calls = llm.get_tool_calls_from_response(response)
assert [(call.tool_name, call.tool_kwargs) for call in calls] == [("get_weather", {"city": "Paris"})], calls
print("tool ok")

person = llm.structured_predict(Person, PromptTemplate("{text}"), text="Bob is 42 years old.")
assert person == Person(name="Bob", age=42), person
print("structured output ok")
