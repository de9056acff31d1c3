#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

// Writes JSON like Python's json.dumps(), which Hugging Face's tojson calls.
class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonOptions& options) : runtime_(runtime), options_(options) {}

  Result<void> write(const Value& value, size_t level);
  Text take() { return std::move(out_); }

 private:
  void put(std::string_view text) { out_.append(text, Origin::kTemplate); }
  void put_string(const Text& text);
  Result<void> put_key(const Value& key);
  // Writes `brackets` around n items, each written by write_item(i).
  template <class WriteItem>
  Result<void> write_items(std::string_view brackets, size_t n, size_t level,
                           const WriteItem& write_item);
  Result<void> write_list(const List& list, size_t level);
  Result<void> write_dict(const Dict& dict, size_t level);

  Runtime& runtime_;
  const JsonOptions& options_;
  Text out_;
};

std::string short_escape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      return {};
  }
}

std::string long_escape(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (code < 0x10000) return fmt::format("\\u{:04x}", code);
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                     0xDC00 + ((code - 0x10000) & 0x3FF));
}

void JsonWriter::put_string(const Text& text) {
  put("\"");
  size_t run_begin = 0;
  for (const Text::Run& run : text.runs()) {
    const std::string_view bytes = text.view().substr(run_begin, run.end - run_begin);
    size_t plain_begin = 0;  // start of the characters that need no escape and are not yet written
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Step step = next_utf8(bytes, at);
      const bool is_valid = step.kind == Utf8Step::Kind::kValid;
      std::string escape = is_valid ? short_escape(step.code_point) : "";
      const bool is_escaped =
          is_valid && (step.code_point < 0x20 || (options_.ascii_only && step.code_point > 0x7E));
      if (escape.empty() && is_escaped) escape = long_escape(step.code_point);
      if (!escape.empty()) {
        out_.append(bytes.substr(plain_begin, at - plain_begin), run.origin);
        out_.append(escape, run.origin);
        plain_begin = at + step.n_bytes;
      }
      at += step.n_bytes;
    }
    out_.append(bytes.substr(plain_begin), run.origin);
    run_begin = run.end;
  }
  put("\"");
}

Result<void> JsonWriter::put_key(const Value& key) {
  if (key.text()) {
    put_string(*key.text());
    return {};
  }
  if (!key.is_none() && !key.is_number()) {
    return wrong("tojson takes no {} as a key", type_name(key));
  }
  put("\"");
  TRY(write(key, 0));
  put("\"");
  return {};
}

template <class WriteItem>
Result<void> JsonWriter::write_items(std::string_view brackets, size_t n, size_t level,
                                     const WriteItem& write_item) {
  const auto new_line = [&](size_t spdlog_level) {
    if (options_.indent) put("\n" + std::string(*options_.indent * spdlog_level, ' '));
  };
  put(brackets.substr(0, 1));
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) put(options_.item_separator);
    new_line(level + 1);
    TRY(write_item(i));
  }
  if (n > 0) new_line(level);
  put(brackets.substr(1));
  return {};
}

Result<void> JsonWriter::write_list(const List& list, size_t level) {
  return write_items("[]", list.items.size(), level,
                     [&](size_t i) { return write(list.items[i], level + 1); });
}

Result<void> JsonWriter::write_dict(const Dict& dict, size_t level) {
  std::vector<const std::pair<Value, Value>*> entries;
  for (const auto& entry : dict.entries) entries.push_back(&entry);
  if (options_.sort_keys) {
    std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
      return to_text(a->first).bytes() < to_text(b->first).bytes();
    });
  }
  return write_items("{}", entries.size(), level, [&](size_t i) -> Result<void> {
    TRY(put_key(entries[i]->first));
    put(options_.key_separator);
    return write(entries[i]->second, level + 1);
  });
}

Result<void> JsonWriter::write(const Value& value, size_t level) {
  TRY(runtime_.charge(1));
  if (options_.indent) TRY(runtime_.charge_bytes(*options_.indent * level));
  if (value.text()) {
    TRY(runtime_.charge_bytes(value.text()->size()));
    put_string(*value.text());
  } else if (value.is_none()) {
    put("null");
  } else if (const bool* b = value.as<bool>()) {
    put(*b ? "true" : "false");
  } else if (const double* d = value.as<double>()) {
    put(std::isnan(*d)   ? "NaN"
        : std::isinf(*d) ? (*d < 0 ? "-Infinity" : "Infinity")
                         : float_text(*d));
  } else if (value.as<int64_t>()) {
    put(to_text(value).view());
  } else if (value.list() && value.list()->kind <= List::Kind::kGroup) {
    return write_list(*value.list(), level);
  } else if (value.dict()) {
    return write_dict(*value.dict(), level);
  } else {
    return wrong("tojson takes no {}", type_name(value));
  }
  return {};
}

}  // namespace

Result<Text> to_json(Runtime& runtime, const Value& value, const JsonOptions& options) {
  JsonWriter writer(runtime, options);
  TRY(writer.write(value, 0));
  return writer.take();
}

}  // namespace kvik::jinja
