package call

import (
	"os"
	"strings"
)

// Secret returns an option, or the first line of the file it names: command lines
// can be read by everybody.
func Secret(option string) (string, error) {
	name, ok := strings.CutPrefix(option, "@")
	if !ok {
		return option, nil
	}
	text, err := os.ReadFile(name)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line), err
}
