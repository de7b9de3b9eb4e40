//go:build !race

package rest_test

// There is one goroutine, and the compiler of schemas is slow under the race detector.

import (
	"strings"
	"testing"

	"cutie/testdata/openapi"
)

func TestTheDescriptionIsValid(t *testing.T) {
	text, err := described()
	if err != nil {
		t.Fatal(err)
	}
	if err := openapi.Valid(text); err != nil {
		t.Error(err)
	}
	for name, broken := range map[string][2]string{
		"a parameter nowhere":         {`"in": "path"`, `"in": "nowhere"`},
		"a reference to nothing":      {`"$ref": "#/components/`, `"$ref": "#/components/no/`},
		"a schema of an unknown type": {`"type": "string"`, `"type": "text"`},
	} {
		if !strings.Contains(string(text), broken[0]) {
			t.Errorf("%s: there is no %s to break", name, broken[0])
		} else if openapi.Valid([]byte(strings.Replace(string(text), broken[0], broken[1], 1))) == nil {
			t.Errorf("%s: no fault is found", name)
		}
	}
}
