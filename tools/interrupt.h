// Ctrl-C. While something stoppable is under way, the first one asks it to stop; a second one, or
// one at any other time, ends the program at once with exit code 130.
#pragma once

namespace engine::tools {

void handle_interrupts();  // once, at start

// Its lifetime is that of something that looks at interrupted() now and then.
class Stoppable {
 public:
  Stoppable() noexcept;
  ~Stoppable();
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;
};

// Whether the latest Stoppable has been asked to stop.
bool interrupted() noexcept;

}  // namespace engine::tools
