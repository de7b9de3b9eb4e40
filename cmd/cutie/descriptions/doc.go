// Package descriptions has the commands about resource descriptions in SOIF: exchanging
// them with servers of RDM, and checking, printing and mending files of them.
package descriptions
