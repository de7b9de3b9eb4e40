package fault

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// InOption is an error in an option, without the words of the library.
func InOption(err error) string {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err.Error()
	}
	f := value.GetFlag()
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	why := "is no " + f.Value.Type()
	switch f.Value.Type() {
	case "int", "int64", "uint", "uint16", "uint64":
		why = "is not a whole number in range"
	case "duration":
		why = "is not a time such as 30s, 10m or 24h"
	case "bool":
		why = "is neither true nor false"
	case "octets", "text":
		return name + ": " + value.Unwrap().Error()
	}
	return fmt.Sprintf("%s %.40q %s", name, value.GetValue(), why)
}
