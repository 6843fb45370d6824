#include "tools/number_range.h"

#include <sstream>

namespace engine::tools {

std::string NumberRange::text() const {
  std::ostringstream text;
  text << low << " to " << high;
  return text.str();
}

}  // namespace engine::tools
