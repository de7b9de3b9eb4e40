package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the program available to tests by its name: as "cutie" in
// PATH, in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"cutie": main})
}
