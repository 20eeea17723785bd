// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// User returns the configuration of a client with a certificate for this user and these groups. The
// user has only the permissions of Grant and of bindings to the groups.
func (e *Environment) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	config, err := e.client(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Anonymous returns the configuration of a client without credentials.
func (e *Environment) Anonymous() *rest.Config { return rest.AnonymousClientConfig(e.Admin) }

// FrontProxy returns the configuration of a client with a certificate of the aggregator's
// authority.
func (e *Environment) FrontProxy(t testing.TB, name string) *rest.Config {
	t.Helper()
	certificate, key, err := e.proxy.Issue(pkix.Name{CommonName: name}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := e.Anonymous()
	config.CertData, config.KeyData = certificate, key
	return config
}

// ServiceAccount creates a ServiceAccount if it does not exist, and returns the configuration of a
// client with a token of it.
func (e *Environment) ServiceAccount(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	accounts := e.Kube.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := e.Anonymous()
	config.BearerToken = token.Status.Token
	return config
}

// AwaitGrant waits until kube-apiserver's authorizer allows a rule, which it observes with a delay.
func (e *Environment) AwaitGrant(t testing.TB, user, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	spec := authorizationv1.SubjectAccessReviewSpec{User: user}
	if len(rule.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0],
			Verb: rule.Verbs[0]}
	} else {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		}
		if len(rule.ResourceNames) > 0 {
			spec.ResourceAttributes.Name = rule.ResourceNames[0]
		}
	}
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 15*time.Second, true,
		func(ctx context.Context) (bool, error) {
			review, err := e.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx,
				&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
			return err == nil && review.Status.Allowed, err
		})
	if err != nil {
		t.Fatalf("waiting until %s is authorized: %v", user, err)
	}
}

// Grant binds a user to a role with these rules until the test ends. An empty namespace grants them
// in the whole cluster.
func (e *Environment) Grant(t testing.TB, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	meta := metav1.ObjectMeta{GenerateName: "test-"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	rbac := e.Kube.RbacV1()
	var err, undo error
	var cleanUp func()
	if namespace == "" {
		var role *rbacv1.ClusterRole
		if role, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
			metav1.CreateOptions{}); err == nil {
			_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			}, metav1.CreateOptions{})
			cleanUp = func() { undo = rbac.ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}) }
		}
	} else {
		var role *rbacv1.Role
		if role, err = rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules},
			metav1.CreateOptions{}); err == nil {
			_, err = rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			}, metav1.CreateOptions{})
			cleanUp = func() { undo = rbac.Roles(namespace).Delete(ctx, role.Name, metav1.DeleteOptions{}) }
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		e.AwaitGrant(t, user, namespace, rule)
	}
	t.Cleanup(func() {
		if cleanUp(); undo != nil {
			t.Error(undo)
		}
	})
}

// MakeNamespace creates a namespace with a generated name. It is not deleted, because no controller
// would finalize it.
func (e *Environment) MakeNamespace(t testing.TB) string {
	t.Helper()
	namespace, err := e.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// Kubectl runs kubectl as Admin, and returns its standard output and standard error. It fails the
// test if kubectl fails.
func (e *Environment) Kubectl(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	output, err := e.kubectl(t.Context(), []byte(stdin), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, output)
	}
	return output
}

// TryKubectl is Kubectl with an error instead of a failed test.
func (e *Environment) TryKubectl(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	output, err := e.kubectl(t.Context(), []byte(stdin), args...)
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return output, err
}

func (e *Environment) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(e.bin, "kubectl"),
		append([]string{"--kubeconfig=" + e.path("admin.kubeconfig"), "--cache-dir=" + e.path("kubectl")}, args...)...)
	command.Env = append(os.Environ(), "HOME="+e.dir)
	command.Stdin = bytes.NewReader(stdin)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := start(command)
	if err == nil {
		err = command.Wait()
	}
	return output.String(), err
}
