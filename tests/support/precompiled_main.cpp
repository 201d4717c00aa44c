// The program that precompiled.hpp is compiled for; it is never run.
int main() { return 0; }
