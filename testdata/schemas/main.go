// Schemas holds objects to their schemas. Standard input has lines of JSON with the
// fields what, schema and object. Faults are printed, and the exit code is 1 then. No
// line at all is a fault.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(in io.Reader) error {
	var faults []error
	n := 0
	for d := json.NewDecoder(in); ; n++ {
		var line struct {
			What           string
			Schema, Object json.RawMessage
		}
		if err := d.Decode(&line); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if err := valid(line.Schema, line.Object); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", line.What, err))
		}
	}
	if n == 0 {
		return errors.New("there are no objects")
	}
	return errors.Join(faults...)
}

func valid(schema, object []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(object))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		return err
	}
	compiled, err := compiler.Compile("schema.json")
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}
