#include <fmt/format.h>
#include <openssl/evp.h>

#include <bit>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "server/dialects/embeddings/embeddings_reply.h"
#include "server/dialects/embeddings/embeddings_request.h"
#include "server/dialects/event_json.h"
#include "server/handlers.h"

namespace kvik {
namespace {

std::string to_base64(std::span<const std::byte> bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL terminates it with NUL
  const int n = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                reinterpret_cast<const unsigned char*>(bytes.data()),
                                static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(n));
  return out;
}

void write_embedding(const std::vector<float>& embedding, EmbeddingsCall::Encoding encoding,
                     std::string& out) {
  static_assert(std::endian::native == std::endian::little);  // the byte order in base64
  if (encoding == EmbeddingsCall::Encoding::kBase64) {
    out += '"' + to_base64(std::as_bytes(std::span(embedding))) + '"';
    return;
  }
  write_numbers(embedding, out);
}

// Returns the writer of OpenAI's answer.
WriteEmbeddings openai_writer(std::string model, EmbeddingsCall::Encoding encoding,
                              std::optional<Prices> prices) {
  return [model = std::move(model), encoding, prices](const EmbeddingResults& results,
                                                      const Usage& sum, JsonBody& body) {
    body.text(R"({"object":"list","data":[)");
    body.each(results->size(), [results, encoding](size_t i, std::string& out) {
      fmt::format_to(std::back_inserter(out), R"({{"object":"embedding","index":{},"embedding":)",
                     i);
      write_embedding(*(*results)[i].embedding, encoding, out);
      out += '}';
    });
    boost::json::object usage{{"prompt_tokens", sum.prompt_tokens},
                              {"total_tokens", sum.prompt_tokens},
                              {"prompt_tokens_details", {{"cached_tokens", 0}}}};
    add_kvik(prices, sum, usage);
    body.text(fmt::format(R"(],"model":{},"usage":{}}})",
                          boost::json::serialize(to_json_string(model)),
                          boost::json::serialize(usage)));
  };
}

}  // namespace

Reply handle_embeddings(const HandlerContext& context, const HttpRequest& request,
                        const RequestBody& body) {
  auto call = parse_embeddings_call(context.service, body);
  auto write = openai_writer(context.service.card().id.text(),
                             call ? call->encoding : EmbeddingsCall::Encoding::kFloat,
                             context.options.prices);
  return start_embeddings(context, request, std::move(call), "input", std::move(write));
}

}  // namespace kvik
