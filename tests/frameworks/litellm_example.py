"""litellm: a forced tool, a JSON schema, and the exception for a prompt that is too long."""
import json
import os

import litellm
from pydantic import BaseModel

litellm.telemetry = False
common = {"model": "openai/kvik", "api_base": os.environ["KVIK_URL"], "api_key": "none", "temperature": 0, "timeout": 120, "num_retries": 0}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the current weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


class Person(BaseModel):
    name: str
    age: int


ask = [{"role": "user", "content": "What is the weather in Paris?"}]
calls = litellm.completion(messages=ask, tools=[TOOL], tool_choice="required", **common).choices[0].message.tool_calls
assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [("get_weather", {"city": "Paris"})], calls
print("tool ok")

answer = litellm.completion(messages=[{"role": "user", "content": "Bob is 42 years old."}], response_format=Person, **common)
assert Person.model_validate_json(answer.choices[0].message.content) == Person(name="Bob", age=42), answer
print("response_format ok")

try:
    litellm.completion(messages=[{"role": "user", "content": "word " * 20000}], **common)
    raise AssertionError("a prompt that is too long was answered")
except litellm.ContextWindowExceededError:
    print("context window ok")
