// Package openapi holds descriptions of the interface to the schema of OpenAPI 3.1. The
// schema leaves references and the schemas of a description open: here each reference
// leads somewhere, and each schema is one. The library that brings the schema has
// a validator, too: it would be the largest thing that tests compile.
package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pb33f/libopenapi/datamodel"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// here is the address of the description for the compiler of schemas.
const here = "description.json"

// Valid returns the faults of a description in JSON, nil if there are none.
func Valid(description []byte) error {
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(datamodel.OpenAPI31SchemaData))
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(description))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := errors.Join(compiler.AddResource("oas31.json", schema), compiler.AddResource(here, doc)); err != nil {
		return err
	}
	rules, err := compiler.Compile("oas31.json")
	if err != nil {
		return err
	}
	c := checker{compiler: compiler, doc: doc}
	c.check("", doc)
	return errors.Join(rules.Validate(doc), errors.Join(c.faults...))
}

type checker struct {
	compiler *jsonschema.Compiler
	doc      any
	faults   []error
}

// check looks at the value at a JSON Pointer, and at those in it.
func (c *checker) check(at string, value any) {
	switch v := value.(type) {
	case []any:
		for i, e := range v {
			c.check(at+"/"+strconv.Itoa(i), e)
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !c.leads(ref) {
			c.faults = append(c.faults, fmt.Errorf("%s: %s leads nowhere", at, ref))
		}
		for name, e := range v {
			below := at + "/" + escape.Replace(name)
			if _, object := e.(map[string]any); object && (name == "schema" || at == "/components/schemas") {
				if _, err := c.compiler.Compile(here + "#" + below); err != nil {
					c.faults = append(c.faults, err)
				}
			}
			c.check(below, e)
		}
	}
}

// leads reports whether a reference is to an object of the description.
func (c *checker) leads(ref string) bool {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return false
	}
	value := c.doc
	for _, name := range strings.Split(pointer, "/") {
		object, _ := value.(map[string]any)
		value = object[unescape.Replace(name)]
	}
	_, ok = value.(map[string]any)
	return ok
}

// Names in a pointer and, in a fragment, in an address (RFC 6901, 3 and 6).
var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D", "#", "%23", "?", "%3F", " ", "%20")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)
