// SPDX-License-Identifier: Apache-2.0
// worker_cpp DICTIONARY NUMBER - the C++ program of languages.py: it reads what Python and C have put, and puts an array, numbers and text that Python reads.
#include <ddict.hpp>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <unistd.h>

static std::string host_name() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

static void work(ddict::Dict d, int number) {
    if (d.get<std::string>("name") != "three languages")
        throw std::runtime_error("another dictionary");
    auto weights = d.view_array<double>("weights"); // in place
    ddict::Array<double> scaled(weights.shape());
    double scale = d.get<double>("scale") * (number + 1);
    for (std::size_t i = 0; i < weights.size(); i++)
        scaled.data()[i] = weights[i] * scale;
    d.put(std::tuple("c++", number), scaled);

    auto of_c = d.view_array<double>(std::tuple("c", number));
    ddict::DDict<std::tuple<std::string, int>, double> sums(d); // operator[], as of dragon::DDict
    sums[{"sum", number}] = std::accumulate(of_c.begin(), of_c.end(), 0.0);
    if (sums[{"sum", number}] <= 0)
        throw std::runtime_error("no sum");

    d.put(std::tuple("host", "c++", number), host_name());
    ddict::Key programs("programs");
    if (ddict_add(d.handle(), programs.data(), programs.size(), 1, nullptr, -1) < 0)
        throw std::runtime_error(ddict_errmsg());
}

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: worker_cpp DICTIONARY NUMBER\n";
        return 2;
    }
    try {
        work(ddict::Dict(argv[1]), std::atoi(argv[2]));
    } catch (const std::exception &e) {
        std::cerr << "worker_cpp: " << e.what() << "\n";
        return 1;
    }
}
