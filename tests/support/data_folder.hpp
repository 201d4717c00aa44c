// The repository's folder data/.
#pragma once

#include <string>

namespace hanse {

std::string data_folder(const std::string& path);  // of what lies in it, e.g. "/heart/heart.csv"

}  // namespace hanse
