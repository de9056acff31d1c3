"""The official Python client of Ollama."""
import asyncio
import datetime
import json
import unittest

import ollama

import common

demo = ollama.Client(common.DEMO)
scripted = ollama.Client(common.SCRIPTED)
TASK = [{"role": "user", "content": f"{common.SCRIPT['task']}: paint the walls."}]
FEW = {"num_predict": 8, "temperature": 0}


class Generate(unittest.TestCase):
    def test_whole(self):
        answer = demo.generate("demo", "ROMEO:", options=FEW)
        self.assertEqual((answer.model, answer.done, answer.done_reason), ("demo", True, "length"))
        self.assertTrue(answer.response)
        self.assertEqual(answer.eval_count, 8)
        for duration in (answer.total_duration, answer.prompt_eval_duration, answer.eval_duration):
            self.assertGreater(duration, 0)
        self.assertGreaterEqual(answer.total_duration, answer.prompt_eval_duration + answer.eval_duration)
        datetime.datetime.fromisoformat(answer.created_at.replace("Z", "+00:00"))

    def test_stream_has_the_same_text(self):
        whole = demo.generate("demo", "ROMEO:", options=FEW)
        pieces = list(demo.generate("demo", "ROMEO:", options=FEW, stream=True))
        self.assertEqual("".join(piece.response for piece in pieces), whole.response)
        self.assertEqual([piece.done for piece in pieces], [False] * (len(pieces) - 1) + [True])
        self.assertGreater(len(pieces), 4)
        self.assertEqual(pieces[-1].eval_count, 8)

    def test_context_continues(self):
        first = demo.generate("demo", "ROMEO:", options=FEW)
        self.assertEqual(len(first.context), first.prompt_eval_count + first.eval_count)
        second = demo.generate("demo", "And then?", context=first.context, options=FEW)
        self.assertEqual(list(second.context[:len(first.context)]), list(first.context))
        self.assertGreater(second.prompt_eval_count, len(first.context))

    def test_raw_and_template(self):
        raw = demo.generate("demo", "ROMEO:", raw=True, options=FEW)
        self.assertIsNone(raw.context)
        written = demo.generate("demo", "ROMEO", template="{{ .Prompt }}:{{ .Response }}", options=FEW)
        self.assertEqual(written.response, raw.response)

    def test_options(self):
        options = {"seed": 3, "temperature": 1.2, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repeat_penalty": 1.1, "num_predict": 12, "num_ctx": 512}
        same = [demo.generate("demo", "ROMEO:", options=options).response for _ in range(2)]
        self.assertEqual(same[0], same[1])
        full = demo.generate("demo", "ROMEO:", raw=True, options=FEW).response
        stop = full[len(full) // 2]
        cut = demo.generate("demo", "ROMEO:", raw=True, options={**FEW, "stop": [stop]})
        self.assertEqual(cut.response, full[:full.index(stop)])
        self.assertEqual(cut.done_reason, "stop")

    def test_format(self):
        schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["age"]}
        answer = demo.generate("demo", "How old is Juliet?", format=schema, options={"num_predict": 64})
        self.assertIn(json.loads(answer.response)["age"], range(10))
        self.assertTrue(demo.generate("demo", "Juliet?", format="json", options={"num_predict": 20}).response.lstrip().startswith("{"))

    def test_logprobs(self):
        answer = demo.generate("demo", "ROMEO:", options=FEW, logprobs=True, top_logprobs=2)
        self.assertEqual(len(answer.logprobs), 8)
        for token in answer.logprobs:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 2)
            self.assertEqual(token.top_logprobs[0].token, token.token)  # greedy

    def test_load_and_unload(self):
        self.assertEqual(demo.generate("demo").done_reason, "load")
        self.assertEqual(demo.generate("demo", keep_alive=0).done_reason, "unload")
        self.assertEqual(demo.chat("demo", []).done_reason, "load")


class Chat(unittest.TestCase):
    def test_whole_and_stream(self):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
        whole = demo.chat("demo:latest", messages, options=FEW)
        self.assertEqual(whole.message.role, "assistant")
        self.assertTrue(whole.message.content)
        stream = demo.chat("demo:latest", messages, options=FEW, stream=True)
        self.assertEqual("".join(piece.message.content for piece in stream), whole.message.content)

    def test_thinking_and_tool_calls(self):
        answer = scripted.chat("scripted", TASK, tools=[common.paint], think=True)
        self.assertEqual(answer.message.thinking.strip(), common.SCRIPT["thought"])
        self.assertEqual(answer.message.content.strip(), common.SCRIPT["words"])
        self.assertEqual([call.function.arguments for call in answer.message.tool_calls], common.SCRIPT["arguments"])
        self.assertEqual({call.function.name for call in answer.message.tool_calls}, {"paint"})

    def test_a_stream_has_whole_tool_calls(self):
        thinking, content, calls = "", "", []
        for piece in scripted.chat("scripted", TASK, tools=[common.paint], stream=True):
            thinking += piece.message.thinking or ""
            content += piece.message.content or ""
            calls += piece.message.tool_calls or []
        self.assertEqual((thinking.strip(), content.strip()), (common.SCRIPT["thought"], common.SCRIPT["words"]))
        self.assertEqual([call.function.arguments for call in calls], common.SCRIPT["arguments"])

    def test_results_of_tools_come_back(self):
        messages = list(TASK)
        answer = scripted.chat("scripted", messages, tools=[common.paint])
        messages.append(answer.message)
        for call in answer.message.tool_calls:
            messages.append({"role": "tool", "tool_name": call.function.name, "content": common.paint(**call.function.arguments)})
        self.assertEqual(scripted.chat("scripted", messages, tools=[common.paint]).message.content, common.SCRIPT["last_words"])

    def test_format(self):
        schema = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}, "is_wet": {"type": "boolean"}}, "required": ["colour", "is_wet"]}
        answer = demo.chat("demo", [{"role": "user", "content": "Juliet?"}], format=schema, options={"num_predict": 100})
        paint = json.loads(answer.message.content)
        self.assertIn(paint["colour"], ("red", "green"))
        self.assertIsInstance(paint["is_wet"], bool)

    def test_images_are_refused_with_a_sentence(self):
        with self.assertRaises(ollama.ResponseError) as caught:
            demo.chat("demo", [{"role": "user", "content": "What is this?", "images": [b"\x89PNG"]}])
        self.assertEqual((caught.exception.status_code, caught.exception.error), (400, "images are not supported; send text"))

    def test_a_repeated_prompt_is_cached(self):
        messages = [{"role": "user", "content": "A long tale of Verona. " * 20}]
        demo.chat("demo", messages, options=FEW)
        again = demo._request_raw("POST", "/api/chat", json={"model": "demo", "messages": messages, "stream": False, "options": FEW}).json()
        self.assertGreater(again["kvik"]["cached_tokens"], again["prompt_eval_count"] // 2)


class Models(unittest.TestCase):
    def test_list(self):
        model = demo.list().models[0]
        self.assertEqual(model.model, "demo:latest")
        self.assertGreater(model.size, 1_000_000)
        self.assertRegex(model.digest, "^[0-9a-f]{64}$")
        self.assertEqual((model.details.family, model.details.quantization_level), ("llama", "Q8_0"))

    def test_show(self):
        shown = demo.show("demo")
        self.assertEqual(shown.modelinfo["general.architecture"], "llama")
        self.assertEqual(shown.modelinfo["llama.context_length"], 1024)
        self.assertIn("completion", shown.capabilities)
        self.assertIn("tools", scripted.show("scripted").capabilities)

    def test_ps(self):
        model = demo.ps().models[0]
        self.assertEqual((model.name, model.context_length), ("demo:latest", 1024))
        self.assertGreater(model.expires_at.year, 9000)

    def test_what_is_missing_is_404(self):
        for call in (lambda: demo.generate("missing", "a"), lambda: demo.show("missing"), lambda: demo.embed("missing", "a")):
            with self.assertRaises(ollama.ResponseError) as caught:
                call()
            self.assertEqual(caught.exception.status_code, 404)
            self.assertIn("model 'missing' not found", caught.exception.error)

    def test_what_cannot_be_changed_is_refused_with_a_sentence(self):
        for call in (lambda: demo.pull("no such:/name"), lambda: demo.delete("a"), lambda: demo.copy("a", "b")):
            with self.assertRaises(ollama.ResponseError) as caught:
                call()
            self.assertIn(caught.exception.status_code, (400, 404))
            self.assertTrue(caught.exception.error)


class Embed(unittest.TestCase):
    def test_texts(self):
        answer = demo.embed("demo", ["To be", "or not", "To be"])
        first, second, third = answer.embeddings
        self.assertEqual(first, third)
        self.assertNotEqual(first, second)
        self.assertAlmostEqual(sum(x * x for x in first), 1, places=4)
        self.assertGreater(answer.prompt_eval_count, 0)
        self.assertEqual(len(demo.embed("demo", "To be", dimensions=16).embeddings[0]), 16)

    def test_the_older_route(self):
        self.assertEqual(list(demo.embeddings("demo", "To be").embedding), list(demo.embed("demo", "To be").embeddings[0]))

    def test_a_text_longer_than_the_context(self):
        text = "word " * 3000
        self.assertEqual(len(demo.embed("demo", text).embeddings), 1)
        with self.assertRaises(ollama.ResponseError) as caught:
            demo.embed("demo", text, truncate=False)
        self.assertEqual(caught.exception.status_code, 400)


class Async(unittest.TestCase):
    def test_many_at_once(self):
        async def ask(client, i):
            text = ""
            async for piece in await client.chat("demo", [{"role": "user", "content": f"Hello {i}!"}], options=FEW, stream=True):
                text += piece.message.content
            return text

        async def all_of_them():
            client = ollama.AsyncClient(common.DEMO)
            return await asyncio.gather(*(ask(client, i % 4) for i in range(16)))

        texts = asyncio.run(all_of_them())
        self.assertEqual(texts[:4] * 4, texts)


@unittest.skipUnless(common.TRAINED, "SmolLM2 is not here")
class Trained(unittest.TestCase):
    def test_an_answer_makes_sense(self):
        answer = ollama.Client(common.TRAINED).chat("smollm2", [{"role": "user", "content": "What is the capital of France?"}],
                                                    options={"temperature": 0, "num_predict": 40})
        self.assertIn("Paris", answer.message.content)

    def test_a_generation_makes_sense(self):
        answer = ollama.Client(common.TRAINED).generate("smollm2", "What is the capital of France?", options={"temperature": 0, "num_predict": 40})
        self.assertIn("Paris", answer.response)


@unittest.skipUnless(common.TOOL_MODEL, "Qwen2.5-Coder is tested by ./test --models")
class ToolModel(unittest.TestCase):
    def test_a_tool_is_called_and_its_result_is_used(self):
        client = ollama.Client(common.TOOL_MODEL)
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        answer = client.chat("kvik", messages, tools=[common.get_weather], options={"temperature": 0})
        calls = [(call.function.name, call.function.arguments) for call in answer.message.tool_calls or []]
        self.assertEqual(calls, [("get_weather", {"city": "Paris"})], answer)
        messages += [answer.message, {"role": "tool", "tool_name": "get_weather", "content": common.get_weather("Paris")},
                     {"role": "user", "content": "How many degrees is it?"}]
        self.assertIn("21", client.chat("kvik", messages, options={"temperature": 0}).message.content)

    def test_the_middle_of_a_function(self):
        answer = ollama.Client(common.TOOL_MODEL).generate("kvik", "def add(a, b):\n    ", suffix="\n\nprint(add(1, 2))\n",
                                                           options={"temperature": 0, "num_predict": 24})
        self.assertIn("return a + b", answer.response)


if __name__ == "__main__":
    unittest.main()
