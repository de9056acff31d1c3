#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <string>

#include "raw_client.h"
#include "server/loading_server.h"
#include "server_fixture.h"

namespace kvik {
namespace {

class ServerLoading : public ServerFixture {
 protected:
  ListenSocket open() {
    auto opened = ListenSocket::open(options.host, options.port);
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error().message);
    return std::move(*opened);
  }
};

TEST_F(ServerLoading, health_is_503_with_the_progress) {
  const ListenSocket socket = open();
  const auto loading = LoadingServer::start(socket, options);
  ASSERT_TRUE(loading.has_value());
  (*loading)->show(1, 4);
  for (const char* path : {"/health", "/readyz"}) {
    const RawResponse answer = RawClient(socket.port()).get(path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.header("retry-after"), "1");
    const auto value = json(answer.body);
    EXPECT_EQ(string_at(value, "/status"), "loading");
    EXPECT_EQ(value.at("progress").to_number<double>(), 0.25);
  }
  EXPECT_EQ(RawClient(socket.port()).get("/livez").status, 200);
}

TEST_F(ServerLoading, requests_are_told_that_the_model_is_being_loaded) {
  options.api_keys = {{{.secret = "one"}}};
  const ListenSocket socket = open();
  const auto loading = LoadingServer::start(socket, options);
  ASSERT_TRUE(loading.has_value());
  expect_error(RawClient(socket.port()).post("/v1/completions", "{}"), 401);
  const RawResponse answer =
      RawClient(socket.port()).post("/v1/completions", "{}", "x-api-key: one\r\n");
  expect_error(answer, 503);
  EXPECT_NE(answer.body.find("the model is being loaded: 0%"), std::string::npos) << answer.body;
}

TEST_F(ServerLoading, a_port_that_is_loading_is_in_use) {
  const ListenSocket socket = open();
  const auto second = ListenSocket::open(options.host, socket.port());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find("give --port N"), std::string::npos)
      << second.error().message;
}

TEST_F(ServerLoading, the_server_takes_over_without_refusing_a_connection) {
  const ListenSocket socket = open();
  auto loading = LoadingServer::start(socket, options);
  ASSERT_TRUE(loading.has_value());
  EXPECT_EQ(RawClient(socket.port()).get("/health").status, 503);
  loading->reset();
  RawClient waiting(socket.port());  // connects although no server accepts
  auto started = Server::start(service, options, socket);
  ASSERT_TRUE(started.has_value()) << started.error().message;
  EXPECT_EQ((*started)->port(), socket.port());
  EXPECT_EQ(waiting.get("/health").status, 200);
}

TEST_F(ServerLoading, an_adopted_socket_has_its_own_address) {
  options.host = "[::1]";
  ListenSocket original = open();
  EXPECT_EQ(original.url("https"), "https://[::1]:" + std::to_string(original.port()));
  const auto adopted = ListenSocket::adopt(FileDescriptor(original.duplicate().value()));
  ASSERT_TRUE(adopted.has_value()) << adopted.error().message;
  EXPECT_EQ(adopted->host(), "::1");
  EXPECT_EQ(adopted->url("https"), original.url("https"));
  server = std::move(*Server::start(service, options, *adopted));
  EXPECT_EQ(server->port(), original.port());
}

TEST_F(ServerLoading, a_unix_domain_socket_serves) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = testing::TempDir() + "kvik-serve-" + std::to_string(::getpid());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  FileDescriptor bound(::socket(AF_UNIX, SOCK_STREAM, 0));
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(::bind(bound.get(), name, sizeof address), 0);
  ASSERT_EQ(::listen(bound.get(), 5), 0);
  const auto socket = ListenSocket::adopt(std::move(bound));
  ASSERT_TRUE(socket.has_value()) << socket.error().message;
  EXPECT_EQ(socket->url("http"), "unix:" + path);
  server = std::move(*Server::start(service, options, *socket));

  const FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(client.get(), name, sizeof address), 0);
  const std::string request =
      "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(::send(client.get(), request.data(), request.size(), 0), std::ssize(request));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(client.get(), buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<size_t>(n));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace kvik
