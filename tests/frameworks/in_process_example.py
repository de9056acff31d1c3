"""OpenAI's client, LangChain, LlamaIndex, instructor, DSPy and Outlines with a model in this process, without a server. The first argument names one.

The environment variable KVIK_MODEL is the model.
"""
import asyncio
import os
import sys

import kvik
import kvik.openai
from pydantic import BaseModel

llm = kvik.LLM(os.environ["KVIK_MODEL"], name="kvik", ctx=2048, kv_bytes=256 << 20)
ASK = [{"role": "user", "content": "Bob is 42 years old."}]


class Person(BaseModel):
    """A person."""
    name: str
    age: int


def openai():
    import openai
    client = kvik.openai.client(llm)
    whole = client.chat.completions.create(model="kvik", messages=ASK, max_tokens=12, temperature=0)
    assert whole.choices[0].message.content == llm.chat(ASK, max_tokens=12, temperature=0).content
    stream = client.chat.completions.create(model="kvik", messages=ASK, max_tokens=12, temperature=0, stream=True)
    assert "".join(event.choices[0].delta.content or "" for event in stream if event.choices) == whole.choices[0].message.content
    assert len(client.embeddings.create(model="kvik", input="But soft", encoding_format="float").data[0].embedding) == llm.info["model_dim"]
    assert client.models.list().data[0].id == llm.info["id"]
    for broken, fields in ((openai.BadRequestError, {"temperature": -1}), (openai.NotFoundError, {"model": "none"})):
        try:
            client.chat.completions.create(**{"model": "kvik", "messages": ASK, **fields})
            raise SystemExit(f"{fields} is no error")
        except broken as error:
            assert next(iter(fields.values())) is not None and error.message, error

    async def run():
        client = kvik.openai.async_client(llm)
        one, other = await asyncio.gather(*(client.chat.completions.create(model="kvik", messages=ASK, max_tokens=12, temperature=0) for _ in range(2)))
        assert one.choices[0].message.content == other.choices[0].message.content == whole.choices[0].message.content
        text = ""
        async for event in await client.completions.create(model="kvik", prompt="ROMEO:", max_tokens=12, temperature=0, stream=True):
            text += event.choices[0].text
        assert text == llm.generate("ROMEO:", max_tokens=12, temperature=0).text
        assert (await client.responses.create(model="kvik", input="Hello", max_output_tokens=5)).output_text
    asyncio.run(run())


def langchain():
    from langchain_openai import ChatOpenAI
    model = ChatOpenAI(base_url=kvik.openai.BASE_URL, api_key="none", model="kvik", temperature=0, max_retries=0, max_tokens=100,
                       http_client=kvik.openai.http_client(llm))
    assert isinstance(model.with_structured_output(Person).invoke("Bob is 42 years old."), Person)
    assert "".join(chunk.content for chunk in model.stream("Hello"))


def llama_index():
    from llama_index.core.prompts import PromptTemplate
    from llama_index.llms.openai_like import OpenAILike
    model = OpenAILike(model="kvik", api_base=kvik.openai.BASE_URL, api_key="none", is_chat_model=True, is_function_calling_model=True, max_tokens=100,
                       http_client=kvik.openai.http_client(llm))
    assert isinstance(model.structured_predict(Person, PromptTemplate("{text}"), text="Bob is 42 years old."), Person)


def instructor():
    import instructor
    client = instructor.from_openai(kvik.openai.client(llm), mode=instructor.Mode.JSON_SCHEMA)
    person = client.chat.completions.create(model="kvik", response_model=Person, messages=ASK, max_tokens=100, max_retries=0)
    assert isinstance(person.age, int)


def dspy():
    import dspy
    client = kvik.openai.client(llm)

    class Model(dspy.BaseLM):
        def forward(self, prompt=None, messages=None, **fields):
            return client.chat.completions.create(model="kvik", messages=messages or [{"role": "user", "content": prompt}], **{**self.kwargs, **fields})

    dspy.configure(lm=Model("kvik", max_tokens=200, cache=False), adapter=dspy.JSONAdapter())
    assert isinstance(dspy.Predict("text -> name: str, age: int")(text="Bob is 42 years old.").age, int)


def outlines():
    import outlines
    model = outlines.from_openai(kvik.openai.client(llm), "kvik")
    assert Person.model_validate_json(model("Bob is 42 years old.", Person, max_tokens=100)).name is not None


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(sys.argv[1], "ok")
