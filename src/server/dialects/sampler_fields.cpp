#include "server/dialects/sampler_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/printable.h"
#include "service/request_bounds.h"
#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

struct SamplerName {
  char letter;  // of the short form
  std::string_view name;
  std::optional<SamplerKind> kind;  // absent: has no effect
};

// llama.cpp's samplers. Without a target adaptive_p has no effect, and tfs_z has none since
// llama.cpp removed it; clients still list both.
constexpr SamplerName kSamplers[] = {
    {'e', "penalties", SamplerKind::kPenalties},
    {'d', "dry", SamplerKind::kDry},
    {'s', "top_n_sigma", SamplerKind::kTopNSigma},
    {'k', "top_k", SamplerKind::kTopK},
    {'y', "typ_p", SamplerKind::kTypicalP},
    {'p', "top_p", SamplerKind::kTopP},
    {'m', "min_p", SamplerKind::kMinP},
    {'x', "xtc", SamplerKind::kXtc},
    {'t', "temperature", SamplerKind::kTemperature},
    {'a', "adaptive_p", std::nullopt},
    {'f', "tfs_z", std::nullopt},
};

// Other names that llama.cpp and its clients use.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"typical_p", "typ_p"},
    {"typical", "typ_p"},
    {"typ", "typ_p"},
    {"temp", "temperature"},
    {"top-k", "top_k"},
    {"top-p", "top_p"},
    {"min-p", "min_p"},
    {"nucleus", "top_p"},
    {"typical-p", "typ_p"},
    {"typ-p", "typ_p"},
    {"top-n-sigma", "top_n_sigma"},
};

const SamplerName* find_sampler(std::string_view name) {
  for (const auto& [other, usual] : kOtherNames) {
    if (name == other) name = usual;
  }
  const auto* const found = std::ranges::find(kSamplers, name, &SamplerName::name);
  return found == std::end(kSamplers) ? nullptr : found;
}

std::unexpected<Error> unknown_sampler(std::string_view name) {
  return refuse("samplers",
                fmt::format("samplers holds '{}', expected penalties, dry, top_n_sigma, top_k, "
                            "typ_p, top_p, min_p, xtc and temperature",
                            name.substr(0, 40)));
}

}  // namespace

Result<void> read_sampler_order(const JsonFields& fields, SamplingParams& sampling) {
  const json::value* value = fields.find("samplers");
  if (!value) return {};
  std::vector<SamplerKind> order;
  const auto add = [&](const SamplerName& sampler) {
    if (sampler.kind) order.push_back(*sampler.kind);
  };
  if (const json::string* letters = value->if_string()) {
    for (const char& letter : *letters) {
      const auto* const found = std::ranges::find(kSamplers, letter, &SamplerName::letter);
      if (found == std::end(kSamplers)) return unknown_sampler({&letter, 1});
      add(*found);
    }
  } else if (const json::array* names = value->if_array()) {
    for (const json::value& name : *names) {
      if (!name.is_string())
        return wrong_type("samplers", "an array of names or a string of letters", name);
      const SamplerName* const found = find_sampler(view(name.get_string()));
      if (!found) return unknown_sampler(view(name.get_string()));
      add(*found);
    }
  } else {
    return wrong_type("samplers", "an array of names or a string of letters", *value);
  }
  if (order.size() > RequestBounds::kSamplers)
    return refuse("samplers", fmt::format("samplers holds {} samplers, at most {} are allowed",
                                          order.size(), RequestBounds::kSamplers));
  sampling.order = std::move(order);
  return {};
}

std::string sampler_letters(std::span<const SamplerKind> order) {
  std::string letters;
  for (const SamplerKind kind : order)
    letters += std::ranges::find(kSamplers, std::optional(kind), &SamplerName::kind)->letter;
  return letters;
}

namespace {

struct TextBounds {
  size_t n_texts, n_bytes;
};

// Reads an array of texts, none of them empty.
Result<std::optional<std::vector<std::string>>> read_texts(const JsonFields& fields,
                                                           std::string_view name,
                                                           TextBounds bounds) {
  TRY_ASSIGN(const json::array* array, fields.list(name));
  if (!array) return std::optional<std::vector<std::string>>();
  if (array->size() > bounds.n_texts)
    return refuse(name, fmt::format("{} holds {} texts, at most {} are allowed", name,
                                    array->size(), bounds.n_texts));
  std::vector<std::string> texts;
  for (const json::value& value : *array) {
    if (!value.is_string()) return wrong_type(name, "an array of strings", value);
    const std::string_view text = view(value.get_string());
    if (text.empty() || text.size() > bounds.n_bytes)
      return refuse(name, fmt::format("{} holds a text of {} bytes, expected 1 to {}", name,
                                      text.size(), bounds.n_bytes));
    texts.emplace_back(text);
  }
  return std::optional(std::move(texts));
}

Result<void> read_banned(const JsonFields& fields, CompletionRequest& request) {
  constexpr TextBounds kBounds{RequestBounds::kBanned, RequestBounds::kBannedBytes};
  for (const std::string_view name : {"bad_words", "banned_strings"}) {
    TRY_ASSIGN(auto texts, read_texts(fields, name, kBounds));
    if (texts) std::ranges::move(*texts, std::back_inserter(request.sampling_texts.banned));
  }
  TRY_ASSIGN(const json::array* tokens, fields.list("banned_tokens"));
  if (!tokens) return {};
  if (tokens->size() > RequestBounds::kBanned)
    return refuse("banned_tokens", fmt::format("banned_tokens holds {} ids, at most {} are allowed",
                                               tokens->size(), RequestBounds::kBanned));
  TRY_ASSIGN(const auto ids, read_token_ids("banned_tokens", *tokens));
  for (const TokenId id : ids) request.engine.sampling.banned.push_back({id});
  return {};
}

// Rejects samplers that Kvik does not have where a value would turn them on.
Result<void> check_no_others(const JsonFields& fields) {
  TRY_ASSIGN(const auto target, fields.number("adaptive_target"));
  if (target.value_or(-1) < 0) return {};
  return refuse("adaptive_target",
                fmt::format("adaptive_target is {}, expected a negative number: the adaptive_p "
                            "sampler is not supported",
                            *target));
}

Result<void> read_number(const JsonFields& fields, std::string_view name,
                         const SamplingField& field, uint32_t& out) {
  const json::value* value = fields.find(name);
  if (field.minus_one && value && value->is_int64() && value->get_int64() < 0) {
    if (value->get_int64() != -1)
      return refuse(fields.path_of(name), fmt::format("{} is {}, expected {}", fields.path_of(name),
                                                      value->get_int64(), field.range));
    out = *field.minus_one;
    return {};
  }
  TRY_ASSIGN(const auto count, fields.count<uint32_t>(name));
  if (count) out = *count;
  return {};
}

Result<void> read_number(const JsonFields& fields, std::string_view name, const SamplingField&,
                         float& out) {
  TRY_ASSIGN(const auto number, fields.number(name));
  if (number) out = *number;
  return {};
}

// Returns the id that a key of an object holds.
Result<TokenId> parse_token_id(std::string_view text) {
  TokenId id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc() && end == text.data() + text.size()) return id;
  return refuse("logit_bias", fmt::format("logit_bias has the key '{}', expected token ids: texts "
                                          "are given as pairs, [[\"text\", 1.5]]",
                                          printable(text.substr(0, 40))));
}

Result<float> read_bias(const json::value& value) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (value.is_bool() && !value.get_bool()) return kNever;
  const auto bias = as_finite(value);
  if (!bias || *bias < -RequestBounds::kBias || *bias > RequestBounds::kBias)
    return refuse("logit_bias", "logit_bias must map tokens to numbers from -100 to 100, or false");
  return static_cast<float>(*bias);
}

std::unexpected<Error> too_many_biases(size_t n) {
  return refuse("logit_bias", fmt::format("logit_bias holds {} entries, at most {} are allowed", n,
                                          RequestBounds::kBiases));
}

Result<void> add_text_bias(std::string_view text, float bias, CompletionRequest& request) {
  if (text.empty() || text.size() > RequestBounds::kBannedBytes)
    return refuse("logit_bias", fmt::format("logit_bias holds a text of {} bytes, expected 1 to {}",
                                            text.size(), RequestBounds::kBannedBytes));
  request.sampling_texts.biases.emplace_back(text, bias);
  return {};
}

Result<void> read_bias_pairs(const json::array& pairs, CompletionRequest& request) {
  if (pairs.size() > RequestBounds::kBiases) return too_many_biases(pairs.size());
  for (const json::value& value : pairs) {
    const json::array* pair = value.if_array();
    if (!pair || pair->size() != 2)
      return refuse("logit_bias", "logit_bias must hold pairs of a token and a number");
    TRY_ASSIGN(const float bias, read_bias(pair->at(1)));
    if (const json::string* text = pair->at(0).if_string()) {
      TRY(add_text_bias(view(*text), bias, request));
      continue;
    }
    TRY_ASSIGN(const TokenId id, read_token_id("logit_bias", pair->at(0)));
    request.engine.sampling.logit_bias.emplace_back(id, bias);
  }
  return {};
}

}  // namespace

Result<void> read_sampling_numbers(const JsonFields& fields, SamplingParams& sampling,
                                   std::string_view repetition_name) {
  for (const SamplingField& field : sampling_fields()) {
    const auto name = field.name == "repetition_penalty" ? repetition_name : field.name;
    TRY(std::visit(
        [&](const auto& number) { return read_number(fields, name, field, number.in(sampling)); },
        field.number));
  }
  return {};
}

Result<void> read_samplers(const JsonFields& fields, CompletionRequest& request,
                           std::string_view repetition_name) {
  constexpr std::string_view kRepeatPenalty = "repeat_penalty";
  constexpr TextBounds kBreakers{RequestBounds::kDryBreakers, RequestBounds::kDryBreakerBytes};
  // llama.cpp's name is understood on every route.
  if (!fields.find(repetition_name) && fields.find(kRepeatPenalty))
    repetition_name = kRepeatPenalty;
  TRY(read_sampling_numbers(fields, request.engine.sampling, repetition_name));
  TRY(read_sampler_order(fields, request.engine.sampling));
  TRY(read_banned(fields, request));
  TRY(check_no_others(fields));
  TRY_ASSIGN(request.sampling_texts.dry_breakers,
             read_texts(fields, "dry_sequence_breakers", kBreakers));
  return {};
}

Result<void> read_logit_bias(const JsonFields& fields, CompletionRequest& request) {
  const json::value* value = fields.find("logit_bias");
  if (!value) return {};
  if (const json::array* pairs = value->if_array()) return read_bias_pairs(*pairs, request);
  const json::object* object = value->if_object();
  if (!object) return wrong_type("logit_bias", "an object or an array of pairs", *value);
  if (object->size() > RequestBounds::kBiases) return too_many_biases(object->size());
  for (const auto& entry : *object) {
    const std::string_view key(entry.key().data(), entry.key().size());
    TRY_ASSIGN(const TokenId id, parse_token_id(key));
    TRY_ASSIGN(const float bias, read_bias(entry.value()));
    request.engine.sampling.logit_bias.emplace_back(id, bias);
  }
  return {};
}

}  // namespace kvik
