// The only source that is told the folder: the compiler's cache knows one that names a folder of a
// checkout in that checkout alone.
#include "support/data_folder.hpp"

namespace hanse {

std::string data_folder(const std::string& path) { return HANSE_DATA_FOLDER + path; }

}  // namespace hanse
