#include <array>
#include <ctime>

#include "template/jinja/runtime.h"

namespace kvik::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // the same limit as in Jinja's sandbox

Result<Value> range(Runtime& runtime, const Arguments& arguments) {
  const auto& given = arguments.positional;
  std::array<int64_t, 3> parts = {0, 0, 1};
  if (given.empty() || given.size() > 3) return wrong("range() takes one to three integers");
  for (size_t i = 0; i < given.size(); ++i) {
    const auto number = given[i].as_int();
    if (!number) return wrong("range() takes integers");
    parts[given.size() == 1 ? 1 : i] = *number;
  }
  const auto [begin, end, step] = parts;
  if (step == 0) return wrong("range() takes a step that is not 0");
  // Uses 128 bits to avoid overflow.
  const __int128 span = step > 0 ? __int128{end} - begin : __int128{begin} - end;
  const __int128 stride = step > 0 ? __int128{step} : -__int128{step};
  const __int128 n = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (n > kMaxRange) {
    return fail(ErrorCode::kExhausted,
                fmt::format("chat template: range() gives more than {} numbers", kMaxRange));
  }
  TRY(runtime.charge(static_cast<uint64_t>(n)));
  std::vector<Value> numbers;
  for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) numbers.emplace_back(begin + i * step);
  List made{.items = std::move(numbers), .kind = List::Kind::kRange};
  made.range = {begin, end, step};
  return Value(std::move(made));
}

Result<Value> dict(Runtime& runtime, const Arguments& arguments) {
  Dict made;
  if (arguments.positional.size() > 1) return wrong("dict() takes one dict, and names");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (given.is_undefined()) return wrong("dict() takes no undefined value");
    if (given.dict()) {
      made = *given.dict();
    } else {  // the argument is an iterable of pairs
      TRY_ASSIGN(const std::vector<Value> pairs, iterate(runtime, given));
      for (const Value& pair : pairs) {
        TRY_ASSIGN(std::vector<Value> parts, iterate(runtime, pair));
        if (parts.size() != 2) return wrong("dict() takes a dict, or pairs");
        TRY(runtime.charge(1 + made.entries.size() / 16));
        set_entry(made, std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  TRY(runtime.charge(made.entries.size()));
  for (const auto& [name, value] : arguments.named) set_entry(made, make_text(name), value);
  return Value(std::move(made));
}

Result<Value> namespace_(Runtime& runtime, const Arguments& arguments) {
  TRY_ASSIGN(const Value values, dict(runtime, arguments));
  auto made = std::make_shared<Namespace>();
  made->values = *values.dict();
  return Value(std::move(made));
}

Result<Value> strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Value* given = arguments.get(0, "format");
  if (given && !given->is_none() && !given->text()) {
    return wrong("'format' is a {}, expected a string", type_name(*given));
  }
  const std::string format = given && given->text() ? given->text()->bytes() : "";
  if (format.size() > 256) return wrong("strftime_now() takes a format of at most 256 bytes");
  const std::time_t seconds = runtime.now_s();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 4096> text;
  const size_t n = std::strftime(text.data(), text.size(), format.c_str(), &parts);
  return make_text(std::string(text.data(), n));
}

Result<Value> raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Value* message = arguments.get(0, "message");
  if (!message) return wrong("raise_exception() takes a message");
  TRY_ASSIGN(const Text text, text_of(runtime, *message));
  return wrong("{}", text.bytes());
}

struct Global {
  std::string_view name;
  Result<Value> (*function)(Runtime&, const Arguments&);
};
constexpr auto kGlobals = std::to_array<Global>({{"range", range},
                                                 {"dict", dict},
                                                 {"namespace", namespace_},
                                                 {"raise_exception", raise_exception},
                                                 {"strftime_now", strftime_now}});

}  // namespace

bool is_global(std::string_view name) { return find_callable(kGlobals, name) != nullptr; }

Result<Value> call_global(Runtime& runtime, std::string_view name, const Arguments& arguments) {
  return find_callable(kGlobals, name)->function(runtime, arguments);
}

}  // namespace kvik::jinja
