// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source checks the source code for mistakes that no test of behaviour finds, for example
// comparisons of secrets that do not take constant time.
package source

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// programs are the folders with the code of programs that run in a cluster.
var programs = []string{"apiserver", "registry", "controllers", "netagent"}

// inspect calls visit for every syntax node of these folders, except tests and generated files. It
// fails the test if there are suspiciously few files.
func inspect(t *testing.T, visit func(position string, node ast.Node)) {
	t.Helper()
	const root = "../.."
	files := 0
	for _, folder := range programs {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(entry.Name(), "zz_generated") {
				return err
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if node != nil {
					visit(strings.TrimPrefix(set.Position(node.Pos()).String(), root+"/"), node)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 150 {
		t.Fatalf("only %d files were found", files)
	}
}

// secret matches names of values that must be compared in constant time.
var secret = regexp.MustCompile(`(?i)(token|password|secret)s?$`)

// name returns the last identifier of an expression.
func name(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		if _, slice := e.Fun.(*ast.ArrayType); len(e.Args) == 1 && (slice || name(e.Fun) == "string") {
			return name(e.Args[0])
		}
	case *ast.StarExpr:
		return name(e.X)
	}
	return ""
}

// harmless reports whether a comparison with this operand cannot reveal a secret: it is nil, an empty string, a
// number, or the name of an object.
func harmless(expression ast.Expr) bool {
	if literal, ok := expression.(*ast.BasicLit); ok {
		return literal.Value == `""` || literal.Kind == token.INT
	}
	// ModeToken is the name of a mode of identities, and not a token.
	return name(expression) == "nil" || name(expression) == "Name" || name(expression) == "ModeToken"
}

// Tokens must be validated by the cluster that issued them, and all comparisons of secrets must
// take constant time.
func TestTokenConstantTime(t *testing.T) {
	found := 0
	inspect(t, func(position string, node ast.Node) {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			found++
			if n.Op != token.EQL && n.Op != token.NEQ || harmless(n.X) || harmless(n.Y) {
				return
			}
			if secret.MatchString(name(n.X)) || secret.MatchString(name(n.Y)) {
				t.Errorf("%s: %s is compared with %s: use crypto/subtle", position, name(n.X), n.Op)
			}
		case *ast.CallExpr:
			function := name(n.Fun)
			if len(n.Args) != 2 || function != "Equal" && function != "Compare" && function != "EqualFold" {
				return
			}
			if secret.MatchString(name(n.Args[0])) || secret.MatchString(name(n.Args[1])) {
				t.Errorf("%s: %s is compared with %s: use crypto/subtle", position, name(n.Args[0]), function)
			}
		}
	})
	if found == 0 {
		t.Error("nothing was looked at")
	}
}

// Every TLS connection must verify its server.
func TestTLSVerifiedByDefault(t *testing.T) {
	inspect(t, func(position string, node ast.Node) {
		pair, ok := node.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		field := name(pair.Key)
		if (field == "InsecureSkipVerify" || field == "Insecure" || field == "InsecureSkipTLSVerify") &&
			name(pair.Value) != "false" {
			t.Errorf("%s: %s is set", position, field)
		}
	})
}
