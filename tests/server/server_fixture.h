#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <utility>

#include "fake_service.h"
#include "raw_client.h"
#include "server/server.h"

namespace kvik {

// A server with a fake service, on any free port.
class ServerFixture : public testing::Test {
 protected:
  ServerFixture() { options.port = 0; }

  // Starts the server. Called once, after `options` are set: by the test, or else by client().
  Server& start() {
    auto started = Server::start(service, options);
    EXPECT_TRUE(started.has_value()) << (started ? "" : started.error().message);
    server = std::move(*started);
    return *server;
  }

  RawClient client(int receive_buffer_bytes = 0) {
    if (!server) start();
    return RawClient(server->port(), receive_buffer_bytes);
  }

  static boost::json::value json(std::string_view text) {
    boost::json::error_code error;
    auto value = boost::json::parse(boost::json::string_view(text.data(), text.size()), error);
    EXPECT_FALSE(error) << text;
    return value;
  }

  static std::string string_at(const boost::json::value& value, const char* pointer) {
    boost::json::error_code error;
    const auto* found = value.find_pointer(pointer, error);
    if (!found || !found->is_string()) return "";
    return {found->get_string().data(), found->get_string().size()};
  }

  // Expects an error in OpenAI's format with this status, and returns its "param".
  static std::string expect_error(const RawResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.header("content-type"), "application/json");
    EXPECT_NE(response.header("x-request-id"), "");
    const auto value = json(response.body);
    EXPECT_NE(string_at(value, "/error/message"), "") << response.body;
    EXPECT_NE(string_at(value, "/error/type"), "") << response.body;
    EXPECT_TRUE(value.at("error").as_object().contains("param"));
    EXPECT_TRUE(value.at("error").as_object().contains("code"));
    return string_at(value, "/error/param");
  }

  // Expects that the server still answers a request on a new connection.
  void expect_alive() {
    RawClient fresh = client();
    EXPECT_EQ(fresh.get("/health").status, 200);
  }

  ServerOptions options;
  FakeService service;  // outlives the server
  std::unique_ptr<Server> server;
};

}  // namespace kvik
