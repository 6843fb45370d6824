#include "tools/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tools/exit_code.h"

namespace engine::tools {
namespace {

// The handler may run on any thread. Lock-free atomics are all that it may share with them.
std::atomic<bool> stoppable{false}, stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  if (!stoppable || stop_requested) ::_exit(kInterrupted);
  stop_requested = true;
}

}  // namespace

void handle_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;  // no read or write of ours need end early: the handler decides
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Stoppable::Stoppable() noexcept {
  stop_requested = false;
  stoppable = true;
}

Stoppable::~Stoppable() { stoppable = false; }

bool interrupted() noexcept { return stop_requested; }

}  // namespace engine::tools
