#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>

#include "server_fixture.h"
#include "test_certificate.h"

namespace kvik {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;

// A TLS client that trusts only this certificate.
class TlsClient {
 public:
  TlsClient(uint16_t port, const TlsFiles& files) {
    context_.set_verify_mode(ssl::verify_peer);
    context_.load_verify_file(files.certificate);
    stream_.next_layer().connect({asio::ip::make_address("127.0.0.1"), port});
    SSL_set1_host(stream_.native_handle(), "localhost");
    stream_.handshake(ssl::stream_base::client);
  }

  void send(std::string_view bytes) { asio::write(stream_, asio::buffer(bytes)); }

  // Returns everything up to the server's close_notify, which must come.
  std::string read_to_close_notify() {
    std::string text;
    boost::system::error_code error;
    asio::read(stream_, asio::dynamic_buffer(text), error);
    EXPECT_EQ(error, asio::error::eof) << error.message();
    return text;
  }

  std::string read_until(std::string_view mark) {
    std::string text;
    while (!text.ends_with(mark)) {
      char c = 0;
      asio::read(stream_, asio::buffer(&c, 1));
      text += c;
    }
    return text;
  }

  std::string protocol() { return SSL_get_version(stream_.native_handle()); }
  void update_keys() { SSL_key_update(stream_.native_handle(), SSL_KEY_UPDATE_REQUESTED); }
  void close() { stream_.next_layer().close(); }

 private:
  asio::io_context io_;
  ssl::context context_{ssl::context::tls_client};
  ssl::stream<tcp::socket> stream_{io_, context_};
};

class ServerTls : public ServerFixture {
 protected:
  ServerTls() { options.tls = certificate.files(); }

  TlsClient tls_client() {
    if (!server) start();
    return {server->port(), certificate.files()};
  }

  std::string refusal() {
    const auto started = Server::start(service, options);
    EXPECT_FALSE(started.has_value());
    return started ? "" : started.error().message;
  }

  TestCertificate certificate;
};

constexpr const char* kGetHealth =
    "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

std::string post(std::string_view body) {
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: "
         "close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

TEST_F(ServerTls, answers_and_sends_close_notify) {
  TlsClient c = tls_client();
  EXPECT_EQ(c.protocol(), "TLSv1.3");
  c.send(kGetHealth);
  EXPECT_TRUE(c.read_to_close_notify().starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ServerTls, a_stream_arrives_token_by_token) {
  TlsClient c = tls_client();
  c.send(post(R"({"prompt":"Hi","stream":true})"));
  const auto call = service.wait_for_call();
  for (const char* text : {"one", "two"}) {
    call->send(text);
    EXPECT_NE(c.read_until(text), "");
  }
  call->finish(FinishReason::kStop);
  call->done();
  EXPECT_NE(c.read_to_close_notify().find("data: [DONE]"), std::string::npos);
}

TEST_F(ServerTls, a_body_of_a_megabyte_arrives) {
  TlsClient c = tls_client();
  c.send(post(R"({"prompt":")" + std::string(1 << 20, 'a') + R"("})"));
  const auto call = service.wait_for_call();
  EXPECT_EQ(std::get<std::string>(call->request.prompt).size(), size_t{1} << 20);
  call->finish(FinishReason::kStop);
  call->done();
  EXPECT_TRUE(c.read_to_close_notify().starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ServerTls, new_keys_in_the_middle_of_a_stream_change_nothing) {
  TlsClient c = tls_client();
  c.send(post(R"({"prompt":"Hi","stream":true})"));
  const auto call = service.wait_for_call();
  for (int i = 0; i < 20; ++i) {
    c.update_keys();
    c.send("\r\n");
    const std::string text = "token " + std::to_string(i) + ";";
    call->send(text);
    EXPECT_NE(c.read_until(text), "");
  }
}

TEST_F(ServerTls, a_client_that_goes_away_cancels_its_completion) {
  TlsClient c = tls_client();
  c.send(post(R"({"prompt":"Hi","stream":true})"));
  const auto call = service.wait_for_call();
  c.close();
  EXPECT_TRUE(call->wait_cancelled());
}

TEST_F(ServerTls, a_client_without_tls_is_disconnected) {
  RawClient plain = client();
  plain.send(kGetHealth);
  EXPECT_EQ(plain.read_to_end().find("HTTP"), std::string::npos);
  TlsClient c = tls_client();
  c.send(kGetHealth);
  EXPECT_TRUE(c.read_to_close_notify().starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(ServerTls, a_slow_handshake_is_disconnected) {
  options.header_timeout = std::chrono::milliseconds(50);
  RawClient silent = client();
  EXPECT_EQ(silent.read_to_end(), "");
}

TEST_F(ServerTls, the_oldest_idle_connections_are_closed_beyond_memory) {
  options.memory_limit_bytes = 1 << 20;  // a quarter of it for connections
  std::vector<std::unique_ptr<TlsClient>> idle;
  if (!server) start();
  for (int i = 0; i < 40; ++i)
    idle.push_back(std::make_unique<TlsClient>(server->port(), certificate.files()));
  idle.back()->send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string page = idle.back()->read_to_close_notify();
  const size_t metric = page.find("\nkvik_http_connections{");
  ASSERT_NE(metric, std::string::npos) << page;
  EXPECT_LE(std::stod(page.substr(page.find("} ", metric) + 2)), 10);
}

TEST_F(ServerTls, a_missing_certificate_is_named) {
  options.tls->certificate = "/nowhere/cert.pem";
  EXPECT_NE(refusal().find("the TLS certificate '/nowhere/cert.pem' cannot be used"),
            std::string::npos);
}

TEST_F(ServerTls, a_file_that_is_no_key_is_named) {
  options.tls->key = options.tls->certificate;
  EXPECT_NE(refusal().find("the TLS key '" + options.tls->key + "' cannot be used"),
            std::string::npos);
}

TEST_F(ServerTls, the_key_of_another_certificate_is_refused) {
  const TestCertificate other;
  options.tls->key = other.files().key;
  EXPECT_NE(refusal().find("the TLS key"), std::string::npos);
}

TEST_F(ServerTls, an_encrypted_key_is_an_error_without_a_prompt) {
  const TestCertificate locked("secret");
  options.tls = locked.files();
  EXPECT_NE(refusal().find("the TLS key"), std::string::npos);
}

}  // namespace
}  // namespace kvik
