"""One pure function per equation, on one transition; no network, no config."""
