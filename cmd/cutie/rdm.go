package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
)

// rdmVerb exchanges descriptions with a server, and reads their files.
func rdmVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdm COMMAND",
		Short: "exchange resource descriptions with a server, check and print them",
		Long: `
The server speaks RDM (W3C NOTE-rdm-960724). Each queue of the daemon is a catalog
with descriptions of its jobs. The files are in SOIF (RFC 2655).`,
		Example: `cutie rdm get http://127.0.0.1:8080/ --since 2026-01-31T10:00:00Z -t json
cutie rdm get http://127.0.0.1:8080/ --order=-Size --hits 10
cutie rdm send http://127.0.0.1:8080/ --catalog jobs new.soif
cutie rdm cat new.soif -t json`,
	}
	return c.Group(cmd, optTarget|optOutput, rdmGetVerb(c), rdmSendVerb(c), soifCheckVerb(c), soifCatVerb(c))
}

// soifVerb is the former name of the part of rdm that reads files.
func soifVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{Use: "soif COMMAND", Short: "check and print resource descriptions"}
	return c.Group(cmd, optOutput|optVerbose, soifCheckVerb(c), soifCatVerb(c))
}

func rdmGetVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get URL",
		Short: "print the descriptions in a catalog, or what a server says of itself",
		Long: `
Prints all descriptions, or those that have changed since a date. With --type it prints
something else: rd-request-deleted is what is no longer in the catalog, and server,
schema, taxonomy and status are what the server says of itself. To follow a catalog, ask
for what was deleted first, and apply the answers in this order.

URL is the server; without a path /rdm/incoming is added. The limits of a server are in
its description (--type server), as Max-Objects, Max-Object-Size, Max-Message-Size and
Max-Ordered. ` + fmt.Sprintf("A daemon sorts %d descriptions; for the first of more there is --hits.",
			rdm.DefaultOrdered),
	}
	r := newRDMCall(c, cmd)
	fs := cmd.Flags()
	fs.StringVar(&r.typ, "type", "rd-request",
		"`type` of the request: rd-request, rd-request-deleted, server, schema, taxonomy or status")
	fs.StringVar(&r.scope, "scope", "", "scope of the query, a `text` such as all or children ROOT")
	fs.StringVar(&r.since, "since", "", "only changes since a `date`, RFC 3339 or of HTTP")
	fs.StringVar(&r.attributes, "attributes", "", "`list` of the wanted attributes")
	fs.StringVar(&r.order, "order", "", "`list` of attributes to sort by, with a minus sign the greatest first")
	fs.StringVar(&r.hits, "hits", "", "`range` of the wanted results, such as 10 or 11..20")
	return c.Verb(cmd, optTarget|optOutput, func(ctx context.Context) error { return nameError(c.Args[0], r.get(ctx)) })
}

func rdmSendVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send URL [FILE…|-]",
		Short: "submit the descriptions in files of SOIF to a catalog",
		Long: fmt.Sprintf(`
Each object becomes a job, replaces the description with its URL, or puts a job back;
with --delete it deletes the descriptions with their URLs. The result for each is
printed, and it is an error if one was rejected. URL is the server; without a path
/rdm/incoming is added.

A message has at most %[1]d objects or 16 MiB; after a message refused as a whole, no
more are sent. A daemon takes messages of %[1]d objects, of %[2]d MiB each, and 1 GiB in
all (or serve --max-body, if that is less).`, rdm.DefaultObjects, soif.DefaultLimit>>20),
	}
	r := newRDMCall(c, cmd)
	cmd.Flags().BoolVar(&r.remove, "delete", false, "delete the descriptions that are sent")
	return c.Verb(cmd, optTarget|optOutput, func(ctx context.Context) error { return nameError(c.Args[0], r.send(ctx)) })
}

// An rdmCall is one exchange with a server.
type rdmCall struct {
	*call
	form, catalog, typ, scope, since, attributes, order, hits string
	remove                                                    bool
}

func newRDMCall(c *call, cmd *cobra.Command) *rdmCall {
	r := &rdmCall{call: c}
	cmd.Flags().StringVarP(&r.form, "form", "t", "soif", "print objects as `soif|json`")
	cmd.Flags().StringVar(&r.catalog, "catalog", "",
		"`name` or Catalog-Service-ID of the catalog (default that of the server)")
	return r
}

// begin returns the URL of the server in the first argument, and the header of a message.
func (r *rdmCall) begin(typ string) (server string, head soif.Object, err error) {
	if server, err = rdm.ServerURL(r.Args[0]); err != nil {
		return "", head, withHint(usagef("%v", err), "one looks like http://127.0.0.1:8080/")
	}
	if head, err = rdm.Begin(server, typ, r.catalog); err != nil {
		err = usagef("%v", err)
	}
	return server, head, err
}

// get sends a query and prints the answer.
func (r *rdmCall) get(ctx context.Context) error {
	typ := strings.ToLower(r.typ)
	if !strings.Contains(typ, "-") {
		typ += "-request"
	}
	if !strings.Contains(typ, "-request") {
		return usagef("--type %.40q is none of rd-request, rd-request-deleted, server, schema, taxonomy, status", r.typ)
	}
	server, head, err := r.begin(typ)
	if err != nil {
		return err
	}
	scope := r.scope
	if r.since != "" {
		if scope != "" {
			return usagef("--scope and --since exclude each other")
		}
		t, err := time.Parse(time.RFC3339, r.since)
		if err != nil {
			t, err = http.ParseTime(r.since)
		}
		if err != nil {
			return usagef("--since %.40q is no date such as 2026-01-31T10:00:00Z", r.since)
		}
		scope = rdm.Since(t)
	}
	query := rdm.Query(scope, r.attributes, r.order, r.hits)
	reply, err := rdm.Post(ctx, r.Remote(server).HTTP, server, agentName(), head, query.Append(nil))
	if err != nil {
		return err
	}
	defer reply.Close()
	if reply.Err != nil {
		return reply.Err
	}
	err = printObjects(r.call, r.form, func(print func(*soif.Object) error) error { return eachObject(reply, print) })
	if err == nil && reply.Note != "" {
		r.Sayf("%s", reply.Note)
	}
	return err
}

// sentAtOnce is how many bytes begin no other object in a message; see
// [rdm.DefaultObjects] as well.
const sentAtOnce = 16 << 20

// send submits the objects in files, many in a message. Those before a mistake are sent.
func (r *rdmCall) send(ctx context.Context) error {
	typ := rdm.Submit
	if r.remove {
		typ = rdm.Delete
	}
	server, head, err := r.begin(typ)
	if err != nil {
		return err
	}
	return printObjects(r.call, r.form, func(print func(*soif.Object) error) error {
		var message bytes.Buffer
		var objects, sent, accepted, rejected int // objects are in the message
		var refused error                         // by the server: no more is sent
		flush := func() error {
			sent += objects
			reply, err := rdm.Post(ctx, r.Remote(server).HTTP, server, agentName(), head, message.Bytes())
			if err != nil {
				return err
			}
			defer reply.Close()
			message.Reset()
			objects = 0
			if reply.Mended != "" {
				r.Warnf("the server mended: %s", reply.Mended)
			}
			if err := eachObject(reply, print); err != nil {
				return err
			}
			if reply.Err != nil && accepted > 0 {
				return fmt.Errorf("%w; %d objects were accepted before", reply.Err, accepted)
			}
			accepted, rejected = accepted+reply.Accepted, rejected+reply.Rejected
			return reply.Err
		}
		mistake := readFiles(r.call, r.Args[1:], func(o *soif.Object) error {
			if err := rdm.CheckPart(o); err != nil {
				return withHint(err, "cutie rdm send writes the message itself, with --delete one that deletes")
			}
			if objects == rdm.DefaultObjects || message.Len() >= sentAtOnce {
				if refused = flush(); refused != nil {
					return refused
				}
			}
			objects++
			return o.Write(&message)
		})
		if refused != nil {
			return refused
		}
		if objects > 0 {
			refused = flush()
		}
		if mistake != nil && sent > 0 {
			r.Warnf("%d sent before the mistake, %d accepted", sent, accepted)
		} else if sent > 0 {
			r.Sayf("%d sent, %d accepted", sent, accepted)
		}
		if refused == nil && rejected > 0 {
			refused = fmt.Errorf("%d accepted, %d rejected", accepted, rejected)
		}
		return errors.Join(refused, mistake)
	})
}

// inSOIF says what is read of files of SOIF.
const inSOIF = `
Text as people write it and as it is printed is read as it is meant, and each change
is named on standard error: sizes that do not fit, as in {x}, blanks in place of the TAB
after the colon, and text outside of objects, which is skipped. A size that fits counts;
with any other, the value ends before the next attribute, or the end of the object.`

func soifCheckVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE…|-]",
		Short: "check descriptions in files of SOIF",
		Long: `
Reads files, or standard input, and prints how many objects (RFC 2655) each has, or where
it is not SOIF. Input without an object is an error, except an empty one.
` + inSOIF,
	}
	return c.Verb(cmd, optVerbose, func(context.Context) error {
		return c.Out.Text(func(w io.Writer) error {
			for _, name := range filesOf(c.Args) {
				n := 0
				err := readFile(c, name, func(*soif.Object) error { n++; return nil })
				line := fmt.Sprintf("%s: %d objects", titleOf(name), n)
				if n == 1 {
					line = titleOf(name) + ": 1 object"
				}
				if _, bad := errors.AsType[*soif.ParseError](err); bad {
					line += ", then a mistake"
				}
				if _, failed := fmt.Fprintln(w, line); err != nil || failed != nil {
					return cmp.Or(err, failed)
				}
			}
			return nil
		})
	})
}

func soifCatVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat [FILE…|-]",
		Short: "print descriptions in files of SOIF, in the right form or as JSON",
		Long: `
Reads files, or standard input, and prints the objects (RFC 2655) in the form of -t. JSON
replaces octets that are no UTF-8. Input without an object is an error, except an empty
one.
` + inSOIF,
	}
	form := cmd.Flags().StringP("form", "t", "soif", "print objects as `soif|json`")
	return c.Verb(cmd, optOutput|optVerbose, func(context.Context) error {
		return printObjects(c, *form, func(print func(*soif.Object) error) error {
			return readFiles(c, c.Args, print)
		})
	})
}

// filesOf returns the names of files to read; "-" is standard input, as is no name.
func filesOf(args []string) []string {
	if len(args) == 0 {
		return []string{"-"}
	}
	return args
}

func titleOf(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readFiles calls do with each object in files of SOIF.
func readFiles(c *call, args []string, do func(*soif.Object) error) error {
	for _, name := range filesOf(args) {
		if err := readFile(c, name, do); err != nil {
			return err
		}
	}
	return nil
}

// readFile says what was mended in a file. Text without an object is no SOIF.
func readFile(c *call, name string, do func(*soif.Object) error) error {
	in := c.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	name = titleOf(name)
	r, n := soif.NewReader(in), 0
	err := eachObject(r, func(o *soif.Object) error { n++; return do(o) })
	mended, all := r.Mended()
	if err == nil && n == 0 && all > 0 {
		err = withHint(errors.New("no object is in it"), "an object begins with @TYPE { URL, in UTF-8 or ASCII")
		return nameError(name, err)
	}
	for _, text := range mended {
		c.Warnf("%s: %s", name, text)
	}
	if all > len(mended) {
		c.Warnf("%s: %d more mistakes of this kind", name, all-len(mended))
	}
	return nameError(name, err)
}

// eachObject calls do with the objects of a file, or of an answer.
func eachObject(in interface{ Read() (soif.Object, error) }, do func(*soif.Object) error) error {
	for {
		o, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = do(&o)
		}
		if err != nil {
			return err
		}
	}
}

// printObjects gives each a function that prints an object to the output file or to
// standard output.
func printObjects(c *call, form string, each func(print func(*soif.Object) error) error) error {
	var print func(w io.Writer, o *soif.Object) error
	switch strings.ToLower(form) {
	case "soif":
		print = func(w io.Writer, o *soif.Object) error { return o.Write(w) }
	case "json":
		print = objectLine
	default:
		return usagef("form %.40q is neither soif nor json", form)
	}
	return c.Out.Text(func(w io.Writer) error {
		return each(func(o *soif.Object) error { return print(w, o) })
	})
}

// objectLine prints a line. A repeated name has a list of values.
func objectLine(w io.Writer, o *soif.Object) error {
	attributes := map[string]any{}
	for _, a := range o.Attributes {
		switch had := attributes[a.Name].(type) {
		case nil:
			attributes[a.Name] = a.Value
		case string:
			attributes[a.Name] = []string{had, a.Value}
		case []string:
			attributes[a.Name] = append(had, a.Value)
		}
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return lines.Encode(struct {
		Type       string         `json:"type"`
		URL        string         `json:"url,omitempty"`
		Attributes map[string]any `json:"attributes"`
	}{o.Type, o.URL, attributes})
}
