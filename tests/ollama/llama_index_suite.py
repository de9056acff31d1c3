"""LlamaIndex' classes for Ollama."""
import asyncio
import unittest
from typing import Literal

from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama
from pydantic import BaseModel

import common

TASK = f"{common.SCRIPT['task']}: paint the walls."


class Wall(BaseModel):
    """A wall."""
    colour: Literal["red", "green"]
    is_wet: bool


def llm(url=common.DEMO, model="demo", n=16, **options):
    return Ollama(base_url=url, model=model, request_timeout=120, temperature=0, context_window=1024, additional_kwargs={"num_predict": n}, **options)


class LlamaIndex(unittest.TestCase):
    def test_complete(self):
        whole = llm().complete("ROMEO:")
        self.assertTrue(whole.text)
        *_, last = llm().stream_complete("ROMEO:")
        self.assertEqual(last.text, whole.text)

    def test_chat(self):
        messages = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="Hello!")]
        whole = llm().chat(messages)
        self.assertTrue(whole.message.content)
        self.assertGreater(whole.raw["usage"]["prompt_tokens"], 0)
        *_, last = llm().stream_chat(messages)
        self.assertEqual(last.message.content, whole.message.content)

    def test_async(self):
        message = [ChatMessage(role="user", content="Hello!")]
        self.assertEqual(asyncio.run(llm().achat(message)).message.content, llm().chat(message).message.content)

    def test_tool_calls(self):
        model = llm(common.SCRIPTED, "scripted", 400, is_function_calling_model=True)
        answer = model.chat_with_tools([FunctionTool.from_defaults(common.paint)], user_msg=TASK, allow_parallel_tool_calls=True)
        calls = model.get_tool_calls_from_response(answer)
        self.assertEqual([call.tool_kwargs for call in calls], common.SCRIPT["arguments"])
        self.assertEqual({call.tool_name for call in calls}, {"paint"})

    def test_structured_output(self):
        wall = llm(n=200).structured_predict(Wall, PromptTemplate("Describe a {what}."), what="wall")
        self.assertIsInstance(wall, Wall)

    def test_embeddings(self):
        embeddings = OllamaEmbedding(model_name="demo", base_url=common.DEMO)
        texts = embeddings.get_text_embedding_batch(["To be", "or not"])
        self.assertEqual(len(texts), 2)
        self.assertEqual(texts[0], embeddings.get_text_embedding("To be"))


if __name__ == "__main__":
    unittest.main()
