#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cli/chat_session.h"
#include "fake_console.h"
#include "scripted_service.h"
#include "support/temporary_folder.h"

namespace kvik {

// A chat between a scripted user and a scripted model.
class ChatFixture : public testing::Test {
 protected:
  // Until nothing more is typed; the screen.
  const std::string& run() {
    LocalGenerator generator(service);
    ChatSession(generator, console, options).run();
    return console.screen;
  }

  std::string path(const std::string& name) const { return folder.path() + "/" + name; }

  TemporaryFolder folder;
  ScriptedService service;
  FakeConsole console;
  ChatSession::Options options;
};

}  // namespace kvik
