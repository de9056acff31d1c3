"""instructor: structured output as a forced tool, and as a JSON schema."""
import os

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_openai(OpenAI(base_url=os.environ["KVIK_URL"], api_key="none", timeout=120, max_retries=0), mode=mode)
    person = client.chat.completions.create(model="kvik", response_model=Person, temperature=0, max_retries=0,
                                            messages=[{"role": "user", "content": "Bob is 42 years old."}])
    assert (person.name, person.age) == ("Bob", 42), person  # an instance of a class that instructor derives
    print(mode.value, "ok")
