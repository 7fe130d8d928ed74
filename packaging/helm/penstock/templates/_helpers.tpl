{{- define "penstock.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "penstock.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "penstock.name" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* The seconds that a pod gets to end: until it is out of the service, until its requests have finished, and for the rest. */}}
{{- define "penstock.grace" -}}
{{- add .Values.preStopSeconds .Values.drain 10 }}
{{- end }}

{{/* The options of `penstock serve`, one a line. */}}
{{- define "penstock.args" -}}
{{- $served := 0 -}}
{{- if .Values.origins }}{{ $served = add1 $served }}{{ end -}}
{{- if .Values.application.name }}{{ $served = add1 $served }}{{ end -}}
{{- if .Values.config }}{{ $served = add1 $served }}{{ end -}}
{{- if ne (int $served) 1 }}{{ fail "set one of origins, application.name and config" }}{{ end -}}
{{- if and .Values.tls.redirectPort (not .Values.tls.secretName) }}{{ fail "tls.redirectPort: only with tls.secretName" }}{{ end -}}
{{- if and .Values.cache.disk.size (not .Values.cache.memory) }}{{ fail "cache.disk.size: only with cache.memory" }}{{ end -}}
{{- range .Values.origins }}
- --origin={{ . }}
{{- end }}
{{- with .Values.application }}
{{- if .name }}
- {{ .name | quote }}
- --workers={{ .workers }}
{{- end }}
{{- end }}
{{- if .Values.config }}
- --config=/etc/penstock/penstock.toml
{{- end }}
- --listen=:8080
- --status-listen={{ .Values.status.address }}:{{ .Values.status.port }}
- --drain={{ .Values.drain }}
- --memory={{ .Values.memory }}
{{- with .Values.cache.memory }}
- --cache={{ . }}
{{- end }}
{{- with .Values.cache.disk.size }}
- --cache-disk=/var/cache/penstock/responses
- --cache-disk-size={{ . }}
{{- end }}
{{- if .Values.tls.secretName }}
- --tls-cert=/etc/penstock-tls/tls.crt
- --tls-key=/etc/penstock-tls/tls.key
{{- if .Values.tls.redirectPort }}
- --http-redirect=:8081
- --http-redirect-port={{ .Values.service.port }}
{{- end }}
{{- end }}
{{- range .Values.args }}
- {{ . | quote }}
{{- end }}
{{- end }}
