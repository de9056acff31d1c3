"""LangChain's classes for Ollama."""
import asyncio
import unittest
from typing import Literal

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM
from pydantic import BaseModel

import common

TASK = f"{common.SCRIPT['task']}: paint the walls."


@tool
def paint(colour: str, n: int) -> str:
    """Paint walls."""
    return common.paint(colour, n)


@tool
def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    return common.get_weather(city)


class Wall(BaseModel):
    """A wall."""
    colour: Literal["red", "green"]
    is_wet: bool


class Person(BaseModel):
    """A person."""
    name: str
    age: int


def chat(url=common.DEMO, model="demo", **options):
    return ChatOllama(base_url=url, model=model, **{"temperature": 0, "num_predict": 16, **options})


class LangChain(unittest.TestCase):
    def test_invoke(self):
        answer = chat(validate_model_on_init=True).invoke([SystemMessage("Be brief."), HumanMessage("Hello!")])
        self.assertIsInstance(answer, AIMessage)
        self.assertTrue(answer.content)
        self.assertEqual(answer.response_metadata["model"], "demo")
        self.assertEqual(answer.response_metadata["done"], True)
        self.assertGreater(answer.usage_metadata["input_tokens"], 0)
        self.assertGreater(answer.usage_metadata["output_tokens"], 0)

    def test_stream(self):
        whole = chat().invoke("Hello!").content
        self.assertEqual("".join(piece.content for piece in chat().stream("Hello!")), whole)

    def test_batch_and_async(self):
        whole = chat().batch(["Hello!", "Farewell!"])
        again = asyncio.run(chat().abatch(["Hello!", "Farewell!"]))
        self.assertEqual([a.content for a in whole], [a.content for a in again])

    def test_tool_calls(self):
        model = chat(common.SCRIPTED, "scripted", num_predict=400, reasoning=True).bind_tools([paint])
        messages = [HumanMessage(TASK)]
        answer = model.invoke(messages)
        self.assertEqual([call["args"] for call in answer.tool_calls], common.SCRIPT["arguments"])
        self.assertEqual(answer.additional_kwargs["reasoning_content"].strip(), common.SCRIPT["thought"])
        messages.append(answer)
        for call in answer.tool_calls:
            messages.append(ToolMessage(paint.invoke(call["args"]), tool_call_id=call["id"]))
        self.assertEqual(model.invoke(messages).content, common.SCRIPT["last_words"])

    def test_tool_calls_of_a_stream(self):
        total = None
        for piece in chat(common.SCRIPTED, "scripted", num_predict=400).bind_tools([paint]).stream(TASK):
            total = piece if total is None else total + piece
        self.assertEqual([call["args"] for call in total.tool_calls], common.SCRIPT["arguments"])

    def test_structured_output(self):
        wall = chat(num_predict=200).with_structured_output(Wall).invoke("Describe a wall.")
        self.assertIsInstance(wall, Wall)
        raw = chat(num_predict=200).with_structured_output(Wall, method="json_mode", include_raw=True).invoke("Describe a wall as JSON.")
        self.assertTrue(raw["raw"].content.lstrip().startswith("{"))

    def test_completions(self):
        llm = OllamaLLM(base_url=common.DEMO, model="demo", temperature=0, num_predict=16)
        whole = llm.invoke("ROMEO:")
        self.assertTrue(whole)
        self.assertEqual("".join(llm.stream("ROMEO:")), whole)

    def test_embeddings(self):
        embeddings = OllamaEmbeddings(base_url=common.DEMO, model="demo")
        documents = embeddings.embed_documents(["To be", "or not"])
        self.assertEqual(documents[0], embeddings.embed_query("To be"))
        self.assertEqual(len(documents[1]), 256)

    def test_a_model_that_is_not_there(self):
        with self.assertRaises(Exception) as caught:
            chat(model="missing").invoke("Hello!")
        self.assertIn("model 'missing' not found", str(caught.exception))

    @unittest.skipUnless(common.TOOL_MODEL, "Qwen2.5-Coder is tested by ./test --models")
    def test_a_trained_model_calls_a_tool(self):
        answer = chat(common.TOOL_MODEL, "kvik", num_predict=200).bind_tools([get_weather]).invoke("What is the weather in Paris?")
        self.assertEqual([(call["name"], call["args"]) for call in answer.tool_calls], [("get_weather", {"city": "Paris"})])

    @unittest.skipUnless(common.TOOL_MODEL, "Qwen2.5-Coder is tested by ./test --models")
    def test_a_trained_model_fills_a_class(self):
        person = chat(common.TOOL_MODEL, "kvik", num_predict=200).with_structured_output(Person).invoke("Bob is 42 years old.")
        self.assertEqual(person, Person(name="Bob", age=42))


if __name__ == "__main__":
    unittest.main()
