// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// widgetsDefinition defines a custom resource that is not part of the product.
const widgetsDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {size: {type: integer}}}
            status: {type: object, properties: {phase: {type: string}}}
`

const aWidget = `
apiVersion: example.com/v1
kind: Widget
metadata:
  name: wheel
spec:
  size: 3
`

// reflectsOtherKinds configures the reflection of a custom resource on both clusters and on the
// virtual node. spec must be reflected to milan and status to rome. Milan also offers an ingress
// class, which reflected Ingresses must have.
func reflectsOtherKinds(t *testing.T) {
	const kinds = `[{"group":"example.com","version":"v1","resource":"widgets"}]`
	names := func(list, classes string) {
		helmUpgrade(t, milan, "--reuse-values", "--wait", "--timeout=3m", "--set-json", "policy.reflectedKinds="+list,
			"--set-json", "policy.ingressClasses="+classes)
		helmUpgrade(t, rome, "--reuse-values", "--wait", "--timeout=3m", "--set-json", "reflection.kinds="+list)
	}
	reflecting := func(list string) []string {
		return []string{"patch", "virtualnode", "milan", "-n", peerNamespace, "--type=merge", "-p",
			`{"spec":{"reflection":{"kinds":` + list + `}}}`}
	}
	t.Cleanup(func() {
		collect(t)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*soon)
		defer cancel()
		errs := []error{rome.Kubectl(ctx, reflecting("[]")...).Err}
		for _, c := range []*harness.Cluster{milan, rome} {
			errs = append(errs, c.Kubectl(ctx, "delete", "crd", "widgets.example.com", "--ignore-not-found").Err)
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		names("[]", "[]")
	})
	names(kinds, `["shared"]`)
	runsThePage(t, rome, "reflection.md#other-kinds", "cert-manager.io", "example.com", "certificates", "widgets")
	isReflected := func(reason string) harness.Condition {
		return func(ctx context.Context) (bool, string, error) {
			node, err := rome.Federation.FederationV1alpha1().VirtualNodes(peerNamespace).Get(ctx, "milan", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			condition := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionKindsReflected)
			return condition != nil && condition.Reason == reason, show(node.Status), nil
		}
	}
	// No cluster serves the kind yet, so milan does not offer it.
	eventually(t, soon, "the virtual node to report that widgets are not offered", isReflected("NotOffered"))
	definition, widget := file(t, widgetsDefinition), file(t, aWidget)
	for _, c := range []*harness.Cluster{milan, rome} {
		kubectl(t, c, "apply", "-f", definition)
		kubectl(t, c, "wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=1m")
	}
	// Each cluster refreshes its discovery once a minute.
	eventually(t, 2*soon, "widgets to be reflected", isReflected("Reflected"))

	o := offloaded(t, remoteOnly)
	kubectl(t, rome, "apply", "-n", o.namespace, "-f", widget)
	field := func(c *harness.Cluster, namespace, path, want string) harness.Condition {
		return func(ctx context.Context) (bool, string, error) {
			result := c.Kubectl(ctx, "get", "widget", "wheel", "-n", namespace, "-o", "jsonpath={"+path+"}")
			return result.Code == 0 && result.Stdout == want, result.Stdout, nil
		}
	}
	eventually(t, soon, "the widget to be on milan", field(milan, o.remote, ".spec.size", "3"))
	kubectl(t, milan, "patch", "widget", "wheel", "-n", o.remote, "--subresource=status", "--type=merge", "-p",
		`{"status":{"phase":"Ready"}}`)
	eventually(t, soon, "its status to be reflected", field(rome, o.namespace, ".status.phase", "Ready"))
	kubectl(t, milan, "patch", "widget", "wheel", "-n", o.remote, "--type=merge", "-p", `{"spec":{"size":9}}`)
	eventually(t, soon, "the drift to be repaired", field(milan, o.remote, ".spec.size", "3"))

	kubectl(t, rome, "create", "ingress", "shop", "-n", o.namespace, "--class=rome", "--rule=shop.example.com/*=front:80")
	eventually(t, soon, "the Ingress to be on milan, of milan's class", func(ctx context.Context) (bool, string, error) {
		result := milan.Kubectl(ctx, "get", "ingress", "shop", "-n", o.remote, "-o", "jsonpath={.spec.ingressClassName}")
		return result.Stdout == "shared", result.Stdout + result.Stderr, nil
	})

	// A reflection policy that includes only some Secrets applies to reflected Secrets, too.
	for _, secret := range []string{"stays", "goes"} {
		kubectl(t, rome, "create", "secret", "generic", secret, "-n", o.namespace, "--from-literal=of="+secret)
	}
	kubectl(t, rome, "annotate", "secret", "goes", "-n", o.namespace, v1alpha1.AnnotationAllowReflection+"=true")
	secretsAre := func(want string) {
		t.Helper()
		eventually(t, soon, "the Secrets on milan to be "+want, func(ctx context.Context) (bool, string, error) {
			result := milan.Kubectl(ctx, "get", "secrets", "-n", o.remote, "-o", "jsonpath={.items[*].metadata.name}")
			return result.Stdout == want, result.Stdout + result.Stderr, nil
		})
	}
	secretsAre("goes stays")
	kubectl(t, rome, reflecting(`[{"version":"v1","resource":"secrets","policy":"AllowList"},`+strings.TrimPrefix(kinds,
		"["))...)
	secretsAre("goes")

	// When a kind is no longer configured, its reflected objects are deleted.
	kubectl(t, rome, reflecting("[]")...)
	eventually(t, soon, "the reflected object to be deleted", func(ctx context.Context) (bool, string, error) {
		result := milan.Kubectl(ctx, "get", "widgets", "-n", o.remote, "-o", "name")
		return result.Code == 0 && strings.TrimSpace(result.Stdout) == "", result.Stdout, nil
	})
}

// file writes a text to a temporary file and returns the path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
