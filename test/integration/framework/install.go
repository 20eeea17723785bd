// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/certificates"
)

const (
	// serviceName is the name of the federation API server's Service.
	serviceName    = "federation-apiserver"
	apiServiceName = "v1alpha1.federation.liqo.io"
)

// installRoles creates the ServiceAccount of the federation API server, binds it to the roles of
// the chart, and writes its kubeconfig.
func (e *Environment) installRoles(ctx context.Context) error {
	if _, err := e.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := e.writeKubeconfig("admin.kubeconfig",
		clientcmdapi.AuthInfo{ClientCertificateData: e.Admin.CertData, ClientKeyData: e.Admin.KeyData}); err != nil {
		return err
	}
	manifests, err := e.render(ctx, nil, "accounts.yaml", "rbac-apiserver.yaml", "rbac-storage-apiserver.yaml",
		"rbac-storage-placement.yaml")
	if err != nil {
		return err
	}
	if output, err := e.kubectl(ctx, manifests, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("installing the roles of the chart: %w: %s", err, output)
	}
	accounts := e.Kube.CoreV1().ServiceAccounts(Namespace)
	token, err := accounts.CreateToken(ctx, serviceName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(certificates.Validity.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting the server's token: %w", err)
	}
	e.account, e.token = e.path("server.kubeconfig"), token.Status.Token
	return e.writeKubeconfig("server.kubeconfig", clientcmdapi.AuthInfo{Token: token.Status.Token})
}

// Chart returns the manifests of some templates of the chart, or of all if none is given.
func (e *Environment) Chart(t testing.TB, templates ...string) string {
	t.Helper()
	return e.ChartWith(t, nil, templates...)
}

// ChartWith is Chart with values in the format of "helm --set-json".
func (e *Environment) ChartWith(t testing.TB, values []string, templates ...string) string {
	t.Helper()
	manifests, err := e.render(t.Context(), values, templates...)
	if err != nil {
		t.Fatal(err)
	}
	return string(manifests)
}

// render returns the manifests of templates of the chart.
func (e *Environment) render(ctx context.Context, values []string, templates ...string) ([]byte, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	version, err := e.Kube.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	args := []string{"template", "liqo", filepath.Join(root, "artifacts", "chart"), "--kube-version=" + version.GitVersion,
		"--namespace=" + Namespace, "--set=clusterName=" + ClusterName, "--set=invitationNamespace=" + InvitationNamespace}
	for _, value := range values {
		args = append(args, "--set-json="+value)
	}
	for _, name := range templates {
		args = append(args, "--show-only=templates/"+name)
	}
	command := exec.CommandContext(ctx, filepath.Join(e.bin, "helm"), args...)
	command.Env = append(os.Environ(), "HOME="+e.dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w: %s", err, stderr.String())
	}
	return output, nil
}

func (e *Environment) writeKubeconfig(name string, user clientcmdapi.AuthInfo) error {
	return writeKubeconfig(e.path(name), e.apiserver, e.authority.Bundle, user)
}

func writeKubeconfig(path, server string, bundle []byte, user clientcmdapi.AuthInfo) error {
	const entry = "test"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{entry: {Server: server, CertificateAuthorityData: bundle}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{entry: &user},
		Contexts:       map[string]*clientcmdapi.Context{entry: {Cluster: entry, AuthInfo: entry}},
		CurrentContext: entry,
	}, path)
}

// AccountKubeconfig writes a kubeconfig for a Kubernetes API at server and returns its path. An
// empty token uses the token of the federation API server's account.
func (e *Environment) AccountKubeconfig(t testing.TB, server string, bundle []byte, token string) string {
	t.Helper()
	if token == "" {
		token = e.token
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(path, server, bundle, clientcmdapi.AuthInfo{Token: token}); err != nil {
		t.Fatal(err)
	}
	return path
}

func (e *Environment) installServer(ctx context.Context) (err error) {
	if e.Server, err = e.newServer("federation-apiserver", e.path("data")); err != nil {
		return err
	}
	return e.Server.start(ctx)
}

// registerAPI creates the APIService of the server, and waits until it is available. Its Service is
// of type ExternalName, because kube-apiserver refuses endpoints with loopback addresses.
func (e *Environment) registerAPI(ctx context.Context) error {
	server, err := url.Parse(e.Server.URL)
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(server.Port(), 10, 32)
	if err != nil {
		return err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName},
		Spec: corev1.ServiceSpec{
			Type:         corev1.ServiceTypeExternalName,
			ExternalName: server.Hostname(),
			Ports:        []corev1.ServicePort{{Port: int32(port)}},
		},
	}
	if _, err := e.Kube.CoreV1().Services(Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return err
	}
	client, err := aggregator.NewForConfig(e.Admin)
	if err != nil {
		return err
	}
	gv := v1alpha1.SchemeGroupVersion
	apiService := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiServiceName},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version,
			GroupPriorityMinimum: 100, VersionPriority: 10,
			Service:  &apiregistrationv1.ServiceReference{Namespace: Namespace, Name: serviceName, Port: ptr.To(int32(port))},
			CABundle: e.authority.Bundle,
		},
	}
	if _, err := client.ApiregistrationV1().APIServices().Create(ctx, apiService, metav1.CreateOptions{}); err != nil {
		return err
	}
	return e.awaitAPI(ctx)
}

// awaitAPI waits until discovery and the OpenAPI documents of the cluster have the federation's
// API.
func (e *Environment) awaitAPI(ctx context.Context) error {
	client, err := aggregator.NewForConfig(e.Admin)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		current, getErr := client.ApiregistrationV1().APIServices().Get(ctx, apiServiceName, metav1.GetOptions{})
		if getErr != nil {
			return false, getErr
		}
		if err = unavailable(current); err != nil {
			return false, nil
		}
		if _, _, err = e.Kube.Discovery().ServerGroupsAndResources(); err != nil {
			return false, nil
		}
		documents, getErr := e.Kube.Discovery().OpenAPIV3().Paths()
		if _, known := documents["apis/"+v1alpha1.SchemeGroupVersion.String()]; !known {
			err = errors.New("its OpenAPI is not known")
			return false, getErr
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("the APIService %s does not become available: %w", apiServiceName, err)
	}
	// kubectl may have cached a discovery without the API.
	return os.RemoveAll(e.path("kubectl"))
}

func unavailable(service *apiregistrationv1.APIService) error {
	for _, condition := range service.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			if condition.Status == apiregistrationv1.ConditionTrue {
				return nil
			}
			return errors.New(condition.Message)
		}
	}
	return errors.New("its availability is unknown")
}
