package state

// HelpClass is the class of help about the service or one of its methods (Cutie
// 5.1). The specification names no elements for it.
var HelpClass = &Class{
	Prefix: "hlp", Root: "helpState", Namespace: namespace + "help",
	Terms: []Term{
		{Name: "method"},
		{Name: "summary"},
		{Name: "request"},
		{Name: "text"},
		{Name: "methods", Item: "methodName"},
	},
}

// Help is help about a method, or about the service if Method is "".
type Help struct {
	Method  string   // such as "Submit-job"
	Summary string   // one line
	Request string   // method and path of the HTTP request
	Text    string   // the rest, in lines
	Methods []string // names of the methods there is help about
}

// OfHelp returns help as a document.
func OfHelp(h Help) Document {
	b := newBuilder(HelpClass)
	b.optional("method", h.Method)
	b.text("summary", h.Summary)
	b.optional("request", h.Request)
	b.text("text", h.Text)
	b.list("methods", h.Methods)
	return b.document()
}
