#include "server/dialects/attest/attestation_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <charconv>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/printable.h"
#include "server/dialects/json_fields.h"
#include "server/dialects/sampler_fields.h"
#include "service/sampling/sampling_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

json::array ids_json(const std::vector<TokenId>& ids) {
  return json::array(ids.begin(), ids.end());
}

json::array biases_json(const SamplingParams& sampling) {
  json::array out;
  for (const auto& [id, bias] : sampling.logit_bias) out.push_back(json::array{id, bias});
  return out;
}

json::array lists_json(const std::vector<std::vector<TokenId>>& lists) {
  json::array out;
  for (const auto& ids : lists) out.push_back(ids_json(ids));
  return out;
}

json::object sampling_json(const SamplingParams& sampling) {
  json::object out;
  for (const SamplingField& field : sampling_fields()) {
    std::visit([&](auto value) { out[field.name] = value; }, value_of(field, sampling));
  }
  if (!sampling.logit_bias.empty()) out["logit_bias"] = biases_json(sampling);
  if (!sampling.banned.empty()) out["banned"] = lists_json(sampling.banned);
  if (sampling.order) out["samplers"] = sampler_letters(*sampling.order);
  if (const auto breakers = sorted_breakers(sampling.dry); !breakers.empty())
    out["dry_breakers"] = lists_json(breakers);
  return out;
}

json::object request_json(const AttestedRequest& request) {
  json::object out{{"prompt", ids_json(request.prompt)},
                   {"seed", std::to_string(request.sampling.seed)},
                   {"min_tokens", request.min_tokens},
                   {"stop_token_ids", ids_json(request.stop_tokens)}};
  if (!request.adapter.empty()) out["adapter"] = request.adapter;
  if (request.is_constrained) out["constrained"] = true;
  return out;
}

std::string link_text(LogitsChain::Link link) { return fmt::format("{:016x}", link); }

json::object choice_json(const CompletionChoice& choice) {
  json::array links;
  for (const LogitsChain::Link link : choice.links) links.emplace_back(link_text(link));
  return {{"ended", choice.ended_itself},
          {"end", link_text(choice.end_link)},
          {"links", std::move(links)}};
}

std::unexpected<Error> is_missing(const JsonFields& fields, std::string_view name) {
  return refuse(name, fmt::format("{} is missing", fields.path_of(name)));
}

template <class T>
Result<T> needed(const JsonFields& fields, std::string_view name, Result<std::optional<T>> read) {
  if (!read) return std::unexpected(read.error());
  if (!*read) return is_missing(fields, name);
  return std::move(**read);
}

Result<const json::array*> needed_list(const JsonFields& fields, std::string_view name) {
  TRY_ASSIGN(const json::array* list, fields.list(name));
  if (!list) return is_missing(fields, name);
  return list;
}

Result<std::vector<TokenId>> needed_ids(const JsonFields& fields, std::string_view name) {
  TRY_ASSIGN(const json::array* list, needed_list(fields, name));
  return read_token_ids(fields.path_of(name), *list);
}

Result<JsonFields> element(const JsonFields& fields, std::string_view name, const json::array& list,
                           size_t i) {
  const std::string path = fields.path_of(name, i);
  if (!list[i].is_object()) return wrong_type(path, "an object", list[i]);
  return JsonFields(list[i].get_object(), path);
}

Result<std::vector<std::pair<TokenId, float>>> read_biases(const JsonFields& fields) {
  std::vector<std::pair<TokenId, float>> biases;
  TRY_ASSIGN(const json::array* list, fields.list("logit_bias"));
  if (!list) return biases;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = fields.path_of("logit_bias", i);
    const json::value& pair = (*list)[i];
    if (!pair.is_array() || pair.get_array().size() != 2)
      return wrong_type(path, "a list of a token id and a number", pair);
    TRY_ASSIGN(const TokenId id, read_token_id(path, pair.get_array()[0]));
    const auto bias = as_finite(pair.get_array()[1]);
    if (!bias) return wrong_type(path, "a list of a token id and a number", pair);
    biases.emplace_back(id, static_cast<float>(*bias));
  }
  return biases;
}

// Reads lists of tokens, none of them empty.
Result<std::vector<std::vector<TokenId>>> read_lists(const JsonFields& fields,
                                                     std::string_view name) {
  std::vector<std::vector<TokenId>> lists;
  TRY_ASSIGN(const json::array* list, fields.list(name));
  if (!list) return lists;
  for (size_t i = 0; i < list->size(); ++i) {
    const json::value& ids = (*list)[i];
    if (!ids.is_array() || ids.get_array().empty())
      return wrong_type(fields.path_of(name, i), "a list of token ids", ids);
    TRY_ASSIGN(lists.emplace_back(), read_token_ids(fields.path_of(name, i), ids.get_array()));
  }
  return lists;
}

std::shared_ptr<const DryBreakers> breakers_of(const std::vector<std::vector<TokenId>>& lists) {
  if (lists.empty()) return nullptr;
  DryBreakers breakers;
  for (const auto& ids : lists) breakers[ids.front()].emplace_back(ids.begin() + 1, ids.end());
  return std::make_shared<const DryBreakers>(std::move(breakers));
}

Result<SamplingParams> read_sampling(const JsonFields& fields) {
  SamplingParams sampling;
  TRY(read_sampling_numbers(fields, sampling));
  TRY_ASSIGN(sampling.logit_bias, read_biases(fields));
  TRY_ASSIGN(sampling.banned, read_lists(fields, "banned"));
  TRY(read_sampler_order(fields, sampling));
  TRY_ASSIGN(const auto breakers, read_lists(fields, "dry_breakers"));
  sampling.dry.breakers = breakers_of(breakers);
  TRY(check_sampling(sampling));
  return sampling;
}

Result<uint64_t> read_seed(const JsonFields& fields) {
  TRY_ASSIGN(const std::string text, needed(fields, "seed", fields.string("seed")));
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc{} && end == text.data() + text.size()) return seed;
  return refuse("seed", fmt::format("{} is '{}', expected a number below 2^64 as text",
                                    fields.path_of("seed"), printable(text)));
}

Result<AttestedRequest> read_request(const JsonFields& fields, const SamplingParams& sampling) {
  AttestedRequest request;
  request.sampling = sampling;
  TRY_ASSIGN(request.prompt, needed_ids(fields, "prompt"));
  if (request.prompt.empty()) return refuse("prompt", "the prompt has no tokens");
  TRY_ASSIGN(request.sampling.seed, read_seed(fields));
  TRY_ASSIGN(request.min_tokens,
             needed(fields, "min_tokens", fields.count<uint32_t>("min_tokens")));
  TRY_ASSIGN(request.stop_tokens, needed_ids(fields, "stop_token_ids"));
  TRY_ASSIGN(auto adapter, fields.string("adapter"));
  request.adapter = std::move(adapter).value_or("");
  TRY_ASSIGN(const auto is_constrained, fields.flag("constrained"));
  request.is_constrained = is_constrained.value_or(false);
  return request;
}

std::optional<LogitsChain::Link> parse_link(const json::value& value) {
  if (!value.is_string()) return std::nullopt;
  const std::string_view digits = view(value.get_string());
  LogitsChain::Link link = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), link, 16);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!is_whole || digits.size() != 16) return std::nullopt;
  return link;
}

// `attested`: the choice in the attestation; `choice`: the one with its tokens.
Result<AttestedChoice> read_choice(const JsonFields& attested, const JsonFields& choice) {
  AttestedChoice out;
  TRY_ASSIGN(out.ids, needed_ids(choice, "token_ids"));
  TRY_ASSIGN(out.ended_itself, needed(attested, "ended", attested.flag("ended")));
  if (out.ids.empty() && !out.ended_itself)
    return refuse("token_ids", fmt::format("{} is empty", choice.path_of("token_ids")));
  const json::value* end = attested.find("end");
  const auto end_link = end ? parse_link(*end) : std::nullopt;
  if (!end_link)
    return refuse("end", fmt::format("{} must be 16 hexadecimal digits", attested.path_of("end")));
  out.end = *end_link;
  TRY_ASSIGN(const json::array* links, needed_list(attested, "links"));
  if (links->size() != out.ids.size()) {
    return refuse("links", fmt::format("{} has {} entries, expected {}, the number of tokens",
                                       attested.path_of("links"), links->size(), out.ids.size()));
  }
  for (size_t i = 0; i < links->size(); ++i) {
    const auto link = parse_link((*links)[i]);
    if (!link)
      return wrong_type(attested.path_of("links", i), "16 hexadecimal digits", (*links)[i]);
    out.links.push_back(*link);
  }
  return out;
}

// Reads all choices. Those of one prompt are adjacent.
Result<void> read_choices_into(const JsonFields& answer, const JsonFields& attested,
                               AttestedAnswer& out) {
  TRY_ASSIGN(const json::array* choices, needed_list(answer, "choices"));
  TRY_ASSIGN(const json::array* attested_choices, needed_list(attested, "choices"));
  TRY_ASSIGN(const uint32_t n_prompts,
             needed(attested, "n_prompts", attested.count<uint32_t>("n_prompts")));
  TRY_ASSIGN(const uint32_t n_each, needed(attested, "n", attested.count<uint32_t>("n")));
  const uint64_t n_all = uint64_t{n_prompts} * n_each;
  if (n_all == 0 || n_prompts != out.prompts.size() || choices->size() != n_all ||
      attested_choices->size() != n_all) {
    return refuse("choices",
                  fmt::format("there are {} choices and {} attested ones of {} prompts, expected "
                              "{} of {}",
                              choices->size(), attested_choices->size(), out.prompts.size(), n_all,
                              n_prompts));
  }
  for (size_t i = 0; i < choices->size(); ++i) {
    TRY_ASSIGN(const JsonFields of_answer, element(answer, "choices", *choices, i));
    TRY_ASSIGN(const JsonFields of_attest, element(attested, "choices", *attested_choices, i));
    TRY_ASSIGN(AttestedChoice choice, read_choice(of_attest, of_answer));
    out.prompts[i / n_each].choices.push_back(std::move(choice));
  }
  return {};
}

}  // namespace

json::object attestation_json(const Attestation& attestation, const WholeAnswer& answer) {
  json::array prompts, choices;
  const SamplingParams& sampling = attestation.requests.front()->sampling;
  for (const auto& request : attestation.requests) prompts.push_back(request_json(*request));
  for (const CompletionChoice& choice : answer.choices) choices.push_back(choice_json(choice));
  return {{"model", attestation.model},
          {"numerics", attestation.numerics},
          {"kv_type", attestation.kv_type},
          {"sampling", sampling_json(sampling)},
          {"n_prompts", attestation.requests.size()},
          {"n", answer.choices.size() / attestation.requests.size()},
          {"prompts", std::move(prompts)},
          {"choices", std::move(choices)}};
}

Result<AttestedAnswer> read_attested_answer(std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    return refuse("", fmt::format("expected an answer as a JSON object{}",
                                  error ? fmt::format(": {}", error.message()) : ""));
  }
  const JsonFields answer(value.get_object());
  TRY_ASSIGN(const auto own, answer.object("kvik"));
  TRY_ASSIGN(const auto attested,
             own ? own->object("attest") : Result<std::optional<JsonFields>>(std::nullopt));
  if (!attested) {
    return refuse("kvik.attest",
                  "there is no kvik.attest: only answers to requests with \"kvik\": {\"attest\": "
                  "true} can be verified");
  }
  AttestedAnswer out;
  TRY_ASSIGN(out.model, needed(*attested, "model", attested->string("model")));
  TRY_ASSIGN(out.numerics, needed(*attested, "numerics", attested->string("numerics")));
  TRY_ASSIGN(out.kv_type, needed(*attested, "kv_type", attested->string("kv_type")));
  TRY_ASSIGN(const JsonFields sampled, needed(*attested, "sampling", attested->object("sampling")));
  TRY_ASSIGN(const SamplingParams sampling, read_sampling(sampled));
  TRY_ASSIGN(const json::array* prompts, needed_list(*attested, "prompts"));
  if (prompts->empty()) return refuse("kvik.attest.prompts", "kvik.attest.prompts is empty");
  for (size_t i = 0; i < prompts->size(); ++i) {
    TRY_ASSIGN(const JsonFields fields, element(*attested, "prompts", *prompts, i));
    TRY_ASSIGN(AttestedRequest request, read_request(fields, sampling));
    out.prompts.push_back({.request = std::move(request), .choices = {}});
  }
  TRY(read_choices_into(answer, *attested, out));
  return out;
}

}  // namespace kvik
