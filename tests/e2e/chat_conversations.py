"""Generates conversations such as clients send."""
import random

WORDS = ["Hello", "world", "naïve café", "  leading", "trailing \n", "日本語テスト", "emoji 👩‍👩‍👧 🎉", "\ttab",
         "<|im_end|>", "[INST]", "{{ not a template }}", "quote \" and ' here", "back\\slash", "a\n\nb",
         "<think>plan</think>", "العربية", "é", "1234567890", "x" * 300, "{\"a\": 1}", "&<>"]


class Conversations:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def text(self):
        if self.random.random() < 0.08:
            return ""
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 4)))

    def value(self, depth=2):
        kind = self.random.randrange(8 if depth else 6)
        if kind == 0:
            return self.random.randint(-10**6, 10**6)
        if kind == 1:
            return self.random.choice([0.5, 1.0, 1e20, -2.25, 1e-7])
        if kind == 2:
            return self.random.choice([True, False, None])
        if kind < 6:
            return self.text()
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self.random.randint(0, 3))]
        return {self.random.choice("abcdefg") + str(i): self.value(depth - 1)
                for i in range(self.random.randint(0, 3))}

    def tool(self, i):
        properties = {f"p{j}": {"type": self.random.choice(["string", "integer", "array"]),
                                "description": self.text()}
                      for j in range(self.random.randint(0, 3))}
        for value in properties.values():
            if self.random.random() < 0.3:
                value["enum"] = [self.text(), self.text()]
        return {"type": "function", "function": {
            "name": f"tool_{i}", "description": self.text(),
            "parameters": {"type": "object", "properties": properties,
                           "required": list(properties)[:1]}}}

    def calls(self):
        return [{"id": "".join(self.random.choice("abc123XYZ") for _ in range(9)),
                 "type": "function",
                 "function": {"name": f"tool_{self.random.randint(0, 2)}",
                              "arguments": {f"p{j}": self.value()
                                            for j in range(self.random.randint(0, 3))}}}
                for _ in range(self.random.choice([1, 1, 2]))]

    def content(self):
        if self.random.random() < 0.1:
            return [{"type": "text", "text": self.text()} for _ in range(self.random.randint(1, 2))]
        return self.text()

    def messages(self):
        messages = []
        if self.random.random() < 0.5:
            messages.append({"role": "system", "content": self.text()})
        for _ in range(self.random.randint(1, 4)):
            messages.append({"role": "user", "content": self.content()})
            if self.random.random() < 0.25:
                calls = self.calls()
                message = {"role": "assistant", "content": self.random.choice([self.text(), None, ""]),
                           "tool_calls": calls}
                if self.random.random() < 0.2:
                    del message["content"]
                messages.append(message)
                for call in calls:
                    messages.append({"role": "tool", "content": self.text(), "name": "tool_0",
                                     "tool_call_id": call["id"]})
            if self.random.random() < 0.85:
                message = {"role": "assistant", "content": self.content()}
                if self.random.random() < 0.2:
                    message["reasoning_content"] = self.text()
                messages.append(message)
        if self.random.random() < 0.6 and messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": self.content()})
        return messages

    def variables(self):
        variables = {"messages": self.messages(), "bos_token": "<s>", "eos_token": "</s>",
                     "unk_token": "<unk>", "pad_token": "<pad>"}
        if self.random.random() < 0.9:
            variables["add_generation_prompt"] = self.random.random() < 0.6
        if self.random.random() < 0.3:
            variables["tools"] = [self.tool(i) for i in range(self.random.randint(1, 3))]
        elif self.random.random() < 0.5:
            variables["tools"] = None
        if self.random.random() < 0.2:
            variables["enable_thinking"] = self.random.random() < 0.5
        if self.random.random() < 0.1:
            variables["date_string"] = "1 Jan 2025"
        if self.random.random() < 0.1:  # variables that firefunction's template requires
            variables.update(functions="[]", datetime="now")
        return variables
