package state

// Schemas are the classes with schemas, by their names in URLs: "queue" is for
// queue.xsd and queue.json.
var Schemas = map[string]*Class{
	"service":   ServiceClass,
	"queue":     QueueClass,
	"job":       JobClass,
	"batch":     BatchClass,
	"exception": ExceptionClass,
}

// ClassNamed returns the class with a schema of this name: that in [Schemas], or the
// type of its documents. It is nil if there is none.
func ClassNamed(name string) *Class {
	if c := Schemas[name]; c != nil {
		return c
	}
	for _, c := range Schemas {
		if c.Root == name {
			return c
		}
	}
	return Facts[name]
}

// XMLSchema returns the XML Schema of the documents of c in XML. Elements of
// other namespaces may follow those of c.
func XMLSchema(c *Class) []byte {
	dst := []byte(`<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="`)
	dst = append(append(dst, c.Namespace...), `" elementFormDefault="qualified"`...)
	if c.List != "" {
		dst = append(dst, " xmlns:"+c.Prefix+`="`+c.Namespace+`"`...)
	}
	dst = append(dst, `>
    <xs:element name="`...)
	dst = append(append(dst, c.Root...), `">
        <xs:complexType>
            <xs:sequence>
`...)
	for i := range c.Terms {
		t := &c.Terms[i]
		dst = append(append(dst, `                <xs:element name="`...), t.Name...)
		dst = append(dst, '"')
		if t.Item == "" {
			dst = append(append(append(dst, ` type="`...), xmlTypes[t.Type]...), "\" minOccurs=\"0\"/>\n"...)
			continue
		}
		if !t.Always {
			dst = append(dst, ` minOccurs="0"`...)
		}
		dst = append(dst, `>
                    <xs:complexType>
                        <xs:sequence>
                            <xs:element name="`...)
		dst = append(append(dst, t.Item...), `" type="`...)
		dst = append(append(dst, xmlTypes[t.Type]...), `" minOccurs="0" maxOccurs="unbounded"/>
                        </xs:sequence>
                    </xs:complexType>
                </xs:element>
`...)
	}
	dst = append(dst, `                <xs:any namespace="##other" processContents="lax" minOccurs="0" maxOccurs="unbounded"/>
            </xs:sequence>
        </xs:complexType>
    </xs:element>
`...)
	if c.List != "" {
		dst = append(dst, `    <xs:element name="`+c.List+`">
        <xs:complexType>
            <xs:sequence>
                <xs:element ref="`+c.Prefix+":"+c.Root+`" minOccurs="0" maxOccurs="unbounded"/>
            </xs:sequence>
        </xs:complexType>
    </xs:element>
`...)
	}
	return append(dst, "</xs:schema>\n"...)
}

var xmlTypes = [...]string{String: "xs:string", Integer: "xs:long", Boolean: "xs:boolean", Date: "xs:dateTime", Reference: "xs:anyURI"}

// JSONSchema returns the JSON Schema, draft 2020-12, of the documents of c in
// JSON. Further properties are allowed.
func JSONSchema(c *Class) []byte {
	dst := []byte(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"` + c.Root +
		`","type":"object","required":["` + nameContext + `","` + nameType + `"`)
	for i := range c.Terms {
		if c.Terms[i].Always {
			dst = append(dst, `,"`+c.Terms[i].Name+`"`...)
		}
	}
	dst = append(dst, `],"properties":{"`+nameContext+`":{"const":{"@vocab":"`+c.Namespace+`/"}},
"`+nameType+`":{"const":"`+c.Root+`"},
"`+nameID+`":{`+jsonTypes[Reference]+"}"...)
	for i := range c.Terms {
		t := &c.Terms[i]
		dst = append(appendName(append(dst, ",\n"...), t.Name), '{')
		if t.Item != "" {
			dst = append(append(append(dst, `"type":"array","items":{`...), jsonTypes[t.Type]...), "}}"...)
			continue
		}
		dst = append(append(dst, jsonTypes[t.Type]...), '}')
	}
	return append(dst, "}}\n"...)
}

var jsonTypes = [...]string{
	String:    `"type":"string"`,
	Integer:   `"type":"integer"`,
	Boolean:   `"type":"boolean"`,
	Date:      `"type":"string","format":"date-time"`,
	Reference: `"type":"string","format":"uri-reference"`,
	Object:    `"type":"object"`,
}
