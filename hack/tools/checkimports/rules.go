// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

const module = "liqo.io/federation"

// pkg is a package in the output of go list.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// pure are the packages of the API types and of pure functions on them, which plans,
// admission and controllers share.
var pure = []string{
	"apiserver/addresses", "apiserver/apis", "apiserver/compatibility", "apiserver/identity", "apiserver/naming",
	"apiserver/nearest", "apiserver/negotiation", "apiserver/netmap", "apiserver/pattern", "apiserver/placement",
	"apiserver/plan", "apiserver/podspec", "apiserver/printable", "apiserver/quota", "apiserver/reflection",
	"apiserver/reviewlimit", "apiserver/trust", "apiserver/volume",
}

// layers has the packages of the module that each layer may import in addition to its own. A
// package belongs to the first layer that contains its path.
var layers = []struct {
	path string
	may  []string
}{
	{"apiserver/apis/federation/validation", []string{
		"apiserver/apis", "apiserver/naming", "apiserver/nearest", "apiserver/pattern", "apiserver/podspec",
		"apiserver/printable",
	}},
	{"apiserver/apis", nil},
	{"apiserver/addresses", []string{"apiserver/apis"}},
	{"apiserver/compatibility", []string{"apiserver/apis"}},
	{"apiserver/identity", []string{"apiserver/apis", "apiserver/naming"}},
	{"apiserver/naming", []string{"apiserver/apis"}},
	{"apiserver/nearest", nil},
	{"apiserver/negotiation", []string{"apiserver/apis"}},
	{"apiserver/netmap", []string{"apiserver/apis"}},
	{"apiserver/pattern", nil},
	{"apiserver/placement", []string{"apiserver/apis", "apiserver/podspec", "apiserver/volume"}},
	{"apiserver/plan", []string{
		"apiserver/apis", "apiserver/naming", "apiserver/placement", "apiserver/podspec", "apiserver/trust",
		"apiserver/volume",
	}},
	{"apiserver/podspec", []string{"apiserver/apis", "apiserver/pattern"}},
	{"apiserver/printable", nil},
	{"apiserver/quota", []string{"apiserver/apis"}},
	{"apiserver/reflection", []string{"apiserver/apis"}},
	{"apiserver/reviewlimit", nil},
	{"apiserver/trust", []string{"apiserver/apis", "apiserver/naming", "apiserver/pattern", "apiserver/podspec"}},
	{"apiserver/volume", []string{"apiserver/apis"}},
	{"generated", []string{"apiserver/apis"}},
	{"registry", append([]string{"generated"}, pure...)},
	{"apiserver/admission", append([]string{"generated"}, pure...)},
	{"apiserver/storage", nil},
	{"apiserver/server", append([]string{"apiserver/admission", "apiserver/storage", "generated", "registry"}, pure...)},
	{"apiserver/options", append([]string{
		"apiserver/admission", "apiserver/storage", "apiserver/server", "generated", "registry",
	}, pure...)},
	{"apiserver/cmd", []string{
		"apiserver/compatibility", "apiserver/nearest", "apiserver/options", "apiserver/server", "apiserver/storage",
	}},
	{"controllers/virtualkubelet/translate", pure},
	{"controllers/virtualkubelet/remotens", append([]string{
		"controllers/virtualkubelet/translate", "generated",
	}, pure...)},
	{"controllers/virtualkubelet/node", append([]string{
		"controllers/leader", "controllers/remote", "controllers/virtualkubelet/translate",
	}, pure...)},
	{"controllers/virtualkubelet/pods", append([]string{
		"controllers/remote", "controllers/virtualkubelet/queue", "controllers/virtualkubelet/remotens",
		"controllers/virtualkubelet/translate", "generated",
	}, pure...)},
	{"controllers/virtualkubelet/mirror", append([]string{
		"controllers/mcs", "controllers/remote", "controllers/virtualkubelet/queue", "controllers/virtualkubelet/remotens",
		"controllers/virtualkubelet/translate", "generated",
	}, pure...)},
	{"controllers", append([]string{"generated"}, pure...)},
	{"netagent", append([]string{"generated"}, pure...)},
	{"hack/tools", []string{"generated"}},
	{"test", []string{"apiserver", "controllers", "generated", "hack/tools/pages", "netagent", "registry"}},
}

// sides are the folders of controllers, each for one side of a peering or for both sides alike. A side may import only
// those other sides that its list (may) names.
var sides = []struct {
	path string
	may  []string
}{
	// The controller of ForeignClusters, in link, runs the steps of both directions of a
	// peering, which are in consumer and provider.
	{"controllers/consumer", []string{"controllers/link"}},
	{"controllers/provider", []string{"controllers/link"}},
	{"controllers/link", nil},
	{"controllers/storage", nil},
}

// reserved has the packages that only one package may import. A path that ends in "/..."
// includes everything below it.
var reserved = []struct {
	imported string
	by       string
}{
	{"github.com/vishvananda/netlink/...", "netagent/kernel"},
	{"golang.zx2c4.com/wireguard/...", "netagent/kernel"},
	{"github.com/coreos/go-iptables/...", "netagent/kernel"},
	{"github.com/virtual-kubelet/virtual-kubelet/...", "controllers/virtualkubelet"},
}

// unreachable has the packages that a layer must not depend on, directly or indirectly.
var unreachable = []struct {
	layer     string
	dependsOn string
}{
	{"netagent", module + "/controllers/..."},
	{"netagent", module + "/registry/..."},
	{"netagent", "k8s.io/apiserver/..."},
	// Only the controller manager serves these metrics.
	{"controllers/virtualkubelet", module + "/controllers/metrics/..."},
}

// remoteClients is the only package that may create a client configuration; the other packages
// of controllers get theirs from it.
const remoteClients = "controllers/remote"

// check returns a line for each violation.
func check(packages []pkg) []string {
	var violations []string
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		violations = append(violations, checkLayer(path, p.Imports)...)
		violations = append(violations, checkSides(path, p.Imports)...)
		violations = append(violations, checkReserved(path, p.Imports)...)
		violations = append(violations, checkUnreachable(path, p.Deps)...)
		violations = append(violations, checkRemoteClients(path, p)...)
	}
	slices.Sort(violations)
	return violations
}

func checkLayer(path string, imports []string) []string {
	at := slices.IndexFunc(layers, func(l struct {
		path string
		may  []string
	}) bool {
		return within(path, l.path+"/...")
	})
	if at < 0 {
		return []string{fmt.Sprintf("%s: belongs to no layer; add it to layers in hack/tools/checkimports", path)}
	}
	layer := layers[at]
	var violations []string
	for _, imported := range imports {
		other, internal := strings.CutPrefix(imported, module+"/")
		if !internal || within(other, layer.path+"/...") {
			continue
		}
		if !slices.ContainsFunc(layer.may, func(allowed string) bool { return within(other, allowed+"/...") }) {
			violations = append(violations, fmt.Sprintf("%s: imports %s, which %s may not", path, other, layer.path))
		}
	}
	return violations
}

func checkSides(path string, imports []string) []string {
	at := sideOf(path)
	if at < 0 {
		return nil
	}
	side := sides[at]
	var violations []string
	for _, imported := range imports {
		other := strings.TrimPrefix(imported, module+"/")
		otherAt := sideOf(other)
		if otherAt >= 0 && otherAt != at && !slices.Contains(side.may, sides[otherAt].path) {
			violations = append(violations, fmt.Sprintf("%s: imports %s, which %s may not", path, other, side.path))
		}
	}
	return violations
}

// sideOf returns the index of the side that a package belongs to; -1 if there is none.
func sideOf(path string) int {
	for i := range sides {
		if within(path, sides[i].path+"/...") {
			return i
		}
	}
	return -1
}

func checkReserved(path string, imports []string) []string {
	var violations []string
	for _, rule := range reserved {
		if within(path, rule.by+"/...") {
			continue
		}
		for _, imported := range imports {
			if within(imported, rule.imported) {
				violations = append(violations, fmt.Sprintf("%s: imports %s, which only %s may", path, imported, rule.by))
			}
		}
	}
	return violations
}

func checkUnreachable(path string, deps []string) []string {
	var violations []string
	for _, rule := range unreachable {
		if !within(path, rule.layer+"/...") {
			continue
		}
		for _, dep := range deps {
			if within(dep, rule.dependsOn) {
				violations = append(violations, fmt.Sprintf("%s: depends on %s, which %s may not", path, dep, rule.layer))
			}
		}
	}
	return violations
}

// checkRemoteClients reports literals of rest.Config and imports of clientcmd in the
// controllers, which must get clients of other clusters from remoteClients.
func checkRemoteClients(path string, p pkg) []string {
	if !within(path, "controllers/...") || within(path, remoteClients+"/...") {
		return nil
	}
	var violations []string
	if slices.Contains(p.Imports, "k8s.io/client-go/tools/clientcmd") {
		violations = append(violations, fmt.Sprintf("%s: imports clientcmd, which only %s may", path, remoteClients))
	}
	if !slices.Contains(p.Imports, "k8s.io/client-go/rest") {
		return violations
	}
	for _, name := range p.GoFiles {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			violations = append(violations, fmt.Sprintf("%s: %v", path, err))
			continue
		}
		for _, at := range restConfigLiterals(file) {
			violations = append(violations, fmt.Sprintf("%s: creates a rest.Config at %s:%d, which only %s may",
				path, name, fset.Position(at).Line, remoteClients))
		}
	}
	return violations
}

// restConfigLiterals returns the positions of the literals of rest.Config in a file.
func restConfigLiterals(file *ast.File) []token.Pos {
	var found []token.Pos
	for node := range ast.Preorder(file) {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			continue
		}
		selector, ok := literal.Type.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Config" {
			continue
		}
		if x, ok := selector.X.(*ast.Ident); ok && (x.Name == "rest" || x.Name == "restclient") {
			found = append(found, literal.Pos())
		}
	}
	return found
}

// within reports whether a path is the one in the pattern. If the pattern ends in "/...", any path below it matches,
// too.
func within(path, pattern string) bool {
	root, tree := strings.CutSuffix(pattern, "/...")
	return path == root || tree && strings.HasPrefix(path, root+"/")
}
