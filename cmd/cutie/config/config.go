// Package config gives options values from outside the command line: from the
// environment, else from a file in TOML. Its names are those of the options, so that
// each setting is described once.
//
//	listen = "127.0.0.1:8080"
//	trusted-proxy = ["10.0.0.0/8"]
//	max-conns = 2000
//
// The variable of an option is its name in capitals with _ for -, after CUTIE_.
package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
)

// An Origin says where the value of an option is from.
type Origin string

// The origins, each before the next.
const (
	Typed       Origin = "option"
	Environment Origin = "environment"
	File        Origin = "file"
	Default     Origin = "default"
)

// maxFile is the most octets of a file.
const maxFile = 1 << 20

// A Filler gives options values.
type Filler struct {
	Options *pflag.FlagSet
	Not     []string                 // options with neither variable nor line in the file
	Typed   func(name string) bool   // whether it stands on the command line
	Getenv  func(name string) string // as [os.Getenv]
	Origins map[string]Origin        // filled by Fill
}

// Variable returns the environment variable of an option.
func Variable(option string) string {
	return "CUTIE_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// Fill sets the options that were not typed. Without a file, name is "". An error names
// the variable or the line.
func (f *Filler) Fill(name string) error {
	values := map[string]any{}
	if name != "" {
		var err error
		if values, err = read(name); err != nil {
			return err
		}
	}
	for key := range values {
		if f.Options.Lookup(key) == nil || slices.Contains(f.Not, key) {
			return fault.Hint(fault.Usagef("%s: there is no setting %.40q", name, key), "cutie config default lists them")
		}
	}
	f.Origins = map[string]Origin{}
	var failed error
	f.Options.VisitAll(func(o *pflag.Flag) {
		if failed != nil || slices.Contains(f.Not, o.Name) {
			return
		}
		f.Origins[o.Name], failed = f.fill(o, name, values)
	})
	return failed
}

// fill sets one option.
func (f *Filler) fill(o *pflag.Flag, file string, values map[string]any) (Origin, error) {
	if f.Typed(o.Name) {
		return Typed, nil
	}
	if text := f.Getenv(Variable(o.Name)); text != "" {
		if err := f.Options.Set(o.Name, text); err != nil {
			return "", fault.Usagef("%s: %s", Variable(o.Name), fault.InOption(err))
		}
		return Environment, nil
	}
	value, there := values[o.Name]
	if !there {
		return Default, nil
	}
	if err := f.set(o, value); err != nil {
		return "", fault.Usagef("%s: %s", file, fault.InOption(err))
	}
	return File, nil
}

// set gives an option a value of TOML.
func (f *Filler) set(o *pflag.Flag, value any) error {
	list, many := o.Value.(pflag.SliceValue)
	switch v := value.(type) {
	case []any:
		if !many {
			return fmt.Errorf("%s takes one value, not a list", o.Name)
		}
		texts := make([]string, len(v))
		for i, e := range v {
			text, ok := e.(string)
			if !ok {
				return fmt.Errorf("%s: %v is not a string", o.Name, e)
			}
			texts[i] = text
		}
		o.Changed = true
		return list.Replace(texts)
	case map[string]any:
		return fmt.Errorf("%s is one value, not a table", o.Name)
	case time.Time, toml.LocalDate, toml.LocalDateTime, toml.LocalTime, float64:
		return fmt.Errorf("%s: %v is neither a string, a whole number, true nor false", o.Name, v)
	case string:
		if many {
			o.Changed = true
			return list.Replace([]string{v})
		}
	}
	return f.Options.Set(o.Name, fmt.Sprint(value))
}

// read reads a file.
func read(name string) (map[string]any, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fault.Usagef("%s has more than %d octets", name, maxFile)
	}
	var values map[string]any
	err = toml.Unmarshal(text, &values)
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return nil, fault.Usagef("%s:%d:%d: %v", name, line, column, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	return values, err
}
